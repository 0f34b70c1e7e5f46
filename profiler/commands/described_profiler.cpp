// Converts CLI11's data about subcommands to a DescribedProgram.
#include "profiler/commands/described_profiler.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <vector>

#include "config/manual/completion.h"
#include "config/manual/described_program.h"
#include "config/manual/manual_page.h"
#include "config/option_table.h"

namespace hearth {
namespace {

/// Returns the words that an option accepts. They are in Hearth's option table or in CLI11's type name, which
/// has the form "NAME:{a,b}".
std::vector<std::string> words_of(const std::string& name, const std::string& type) {
  if (const OptionSpec* spec = find_option(Program::kProfiler, name)) {
    if (const ChoiceField* choice = std::get_if<ChoiceField>(&spec->field))
      return {choice->words.begin(), choice->words.end()};
    return {};
  }
  const size_t begin = type.find(":{"), end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::istringstream in(type.substr(begin + 2, end - begin - 2));
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

DescribedOption described(const CLI::Option& option) {
  DescribedOption out;
  const std::string type = option.get_type_name();
  out.name = option.get_lnames().front();
  if (!option.get_snames().empty()) out.letter = option.get_snames().front().front();
  if (option.get_items_expected_max() > 0) out.value = type.substr(0, type.find(':'));
  out.help = option.get_description();
  if (out.help.find_last_of(".:") != out.help.size() - 1) out.help += '.';
  if (option.get_required()) out.help += " Must be given.";
  out.default_value = option.get_default_str();
  out.words = words_of(out.name, type);
  out.repeats = option.get_items_expected_max() > 1;
  return out;
}

/// Describes a subcommand's options, without -h. Appends its positional arguments to `arguments`.
DescribedGroup described_options(const CLI::App& app, std::string& arguments) {
  DescribedGroup group;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    if (option->get_lnames().empty()) {
      const std::string type = option->get_type_name();
      arguments += (arguments.empty() ? "" : " ") + type.substr(0, type.find(':'));
    } else {
      group.options.push_back(described(*option));
    }
  }
  return group;
}

DescribedProgram describe(const CLI::App& app) {
  DescribedProgram program{
      .name = "hearth-profiler",
      .purpose = "measure language models and this machine, and prepare what makes hearthd faster",
      .usage = {"SUBCOMMAND [options]"},
      .description =
          "Tells before a model is downloaded how fast it will be on a machine (plan), and measures models "
          "that are there. What it finds about a machine or a model is kept in the cache folder, where "
          "hearthd looks for it.",
      .groups = {},
      .commands = {},
      .sections = {{"Files",
                    {{"$XDG_CACHE_HOME/hearth, else ~/.cache/hearth",
                      "What was measured. The service's is /var/cache/hearth."}}},
                   {"Exit status",
                    {{"0", "Done."},
                     {"2", "Refused or failed, as the sentence says."},
                     {"128 + N", "Ended by signal N."}}},
                   {"Examples",
                    {{"hearth-profiler plan --machine rtx4090 --model model.gguf",
                      "Say what of the model would live where, and how fast it would be."},
                     {"hearth-profiler bench --model model.gguf", "Measure it on this machine."}}},
                   {"See also", {{"", "hearthd(1), /usr/share/doc/hearth"}}}},
  };
  std::string none;
  program.groups.push_back(described_options(app, none));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    DescribedCommand entry{
        .name = command->get_name(), .arguments = {}, .help = command->get_description(), .groups = {}};
    entry.help += ".";
    if (!command->get_footer().empty()) entry.help += "\n\n" + command->get_footer();
    entry.groups.push_back(described_options(*command, entry.arguments));
    program.commands.push_back(std::move(entry));
  }
  return program;
}

}  // namespace

std::optional<std::string> generated_help(std::string_view flag, const CLI::App& app) {
  if (flag == "--help-man") return render_manual(describe(app));
  if (flag == "--help-completion-bash") return render_completion(describe(app), Shell::kBash);
  if (flag == "--help-completion-zsh") return render_completion(describe(app), Shell::kZsh);
  if (flag == "--help-completion-fish") return render_completion(describe(app), Shell::kFish);
  return std::nullopt;
}

}  // namespace hearth
