// Builds the description of hearthd from the option table, and adds the sections of the manual page that are
// not about options.
#include "config/manual/described_program.h"

#include <string_view>

#include "config/command_table.h"
#include "config/option_table.h"

namespace hearth {
namespace {

DescribedOption described(const OptionSpec& spec) {
  DescribedOption option;
  option.value = spec.value;
  option.help = spec.help;
  option.default_value = value_text(spec, Options{});
  option.environment = environment_name(spec.name);
  option.repeats = spec.repeats();
  option.letter = spec.letter;
  if (spec.sources != Sources::kEnvironmentOnly) option.name = spec.name;
  if (const ChoiceField* choice = std::get_if<ChoiceField>(&spec.field))
    option.words.assign(choice->words.begin(), choice->words.end());
  return option;
}

DescribedGroup described_actions() {
  DescribedGroup group{.heading = "Instead of serving", .options = {}};
  for (const ActionSpec& spec : action_table()) {
    if (spec.help.empty()) continue;
    DescribedOption option;
    option.name = spec.name;
    option.letter = spec.action == Action::kHelp ? 'h' : '\0';
    option.help = spec.help;
    group.options.push_back(std::move(option));
  }
  return group;
}

DescribedCommand described(const CommandSpec& spec) {
  DescribedCommand command;
  command.name = spec.name;
  command.arguments = spec.arguments;
  command.help = spec.help;
  if (!spec.details.empty()) command.help.append("\n\n").append(spec.details);
  DescribedGroup own{.heading = "Options", .options = {}};
  for (const CommandOption& flag : spec.own) {
    DescribedOption option;
    option.name = flag.name;
    option.value = flag.value;
    option.help = flag.help;
    own.options.push_back(std::move(option));
  }
  DescribedGroup shared{.heading = "Options of the server too", .options = {}};
  for (const std::string_view name : spec.shared)
    shared.options.push_back(described(*find_option(Program::kHearthd, name)));
  command.groups = {std::move(own), std::move(shared)};
  return command;
}

std::vector<DescribedSection> hearthd_sections() {
  return {
      {"Signals",
       {{"SIGTERM, SIGINT",
         "Drain: new requests are refused, running answers have --drain-seconds to finish, then the program "
         "ends with exit code 0. A second signal ends it at once."},
        {"SIGHUP",
         "Reload: opens the log file again, and reads the key file, log-level and model again. If one of "
         "them cannot be read, the log says so, and the old one stays in effect."},
        {"SIGUSR1", "End the measurements of a first start with a GPU, and keep the results so far."}}},
      {"Files",
       {{"/etc/hearth/hearth.toml", "The service's configuration, see hearth.toml(5)."},
        {"/etc/default/hearth", "The service's environment variables: HEARTH_API_KEY, say."},
        {"$XDG_CACHE_HOME/hearth, else ~/.cache/hearth",
         "What was measured of this machine and of models; the service's is /var/cache/hearth. It may be "
         "deleted."}}},
      {"Exit status",
       {{"0", "Ended as asked."},
        {"1", "Failed while running. A service manager may start it again."},
        {"2", "Could not start: an option, a file, the port or the model is wrong, as the sentence says."}}},
      {"Examples",
       {{"hearthd --model model.gguf", "Serve a model on http://127.0.0.1:8080, for this machine only."},
        {"hearthd --check-config --config /etc/hearth/hearth.toml",
         "Say what would be served, or what is wrong."},
        {"systemctl reload hearthd", "Have the service read its keys and its model's name again."}}},
      {"See also", {{"", "hearth.toml(5), hearth-profiler(1), /usr/share/doc/hearth"}}},
  };
}

}  // namespace

DescribedProgram describe_hearthd() {
  DescribedProgram program{
      .name = "hearthd",
      .purpose = "serve a language model over an OpenAI-compatible HTTP API",
      .usage = {"--model FILE|NAME [options]", "--config FILE [options]", "COMMAND [options]"},
      .description =
          "hearthd loads a model from a GGUF file and answers OpenAI's HTTP API: chat completions, "
          "completions, responses and embeddings. A model may be larger than the memory of the GPU; the CPU "
          "then computes a part of it. Without a GPU it computes all.\n\n"
          "Options come from flags, environment variables and a file (--config). A flag wins over the "
          "environment, the environment over the file, the file over the default. A variable that is set but "
          "empty counts as absent.",
      .groups = {},
      .commands = {},
      .sections = hearthd_sections(),
  };
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (program.groups.empty() || program.groups.back().heading != spec.group)
      program.groups.push_back({std::string(spec.group), {}});
    program.groups.back().options.push_back(described(spec));
  }
  program.groups.push_back(described_actions());
  for (const CommandSpec& spec : command_table()) program.commands.push_back(described(spec));
  return program;
}

bool names_file(const std::string& value) { return value.find("FILE") != std::string::npos; }

bool names_folder(const std::string& value) {
  return value.find("DIR") != std::string::npos || value.find("FOLDER") != std::string::npos;
}

}  // namespace hearth
