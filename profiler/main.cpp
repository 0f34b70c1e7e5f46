// hearth-profiler measures models and this machine, and prepares files that make hearthd faster. This file
// has the table of its subcommands and what all subcommands share: help, version, exit codes, and error
// messages of one sentence.
//
// Exit codes: 0 done, 2 refused or failed, 128 + N ended by signal N.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/version.h"
#include "profiler/commands/commands.h"
#include "profiler/commands/described_profiler.h"
#include "profiler/options/command_line.h"
#include "profiler/store/find_model.h"

namespace hearth {
namespace {

/// The subcommands in the order in which --help lists them.
constexpr std::function<int()> (*kCommands[])(CLI::App&) = {
    add_bench_command,  add_perplexity_command, add_calibrate_command, add_plan_command,
    add_probe_command,  add_report_command,     add_count_command,     add_synth_command,
    add_replay_command, add_convert_command,    add_quantize_command,  add_train_command,
    add_join_command,
};

/// Lets the options that take a model's file take the name of a pulled model, too.
void take_names_of_models(CLI::App& app) {
  const auto file_of = [](const std::string& text) {
    const Options in_usual_folder;
    return local_model(text, in_usual_folder, process_environment()).string();
  };
  for (CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (const char* const name : {"--model", "--draft-model", "model"}) {
      if (CLI::Option* const option = command->get_option_no_throw(name)) option->transform(file_of);
    }
  }
}

int main_of(int argc, char** argv) {
  // 1. Add the subcommands and their options.
  CLI::App app("Measures a model on this machine.", "hearth-profiler");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormat>());  // also for the subcommands
  app.set_version_flag("--version", std::string("hearth-profiler ") + hearth_version(),
                       "Print the version and exit");
  std::vector<std::function<int()>> runs;
  for (const auto add : kCommands) runs.push_back(add(app));
  take_names_of_models(app);
  if (const auto text = argc == 2 ? generated_help(argv[1], app) : std::nullopt) {
    std::cout << *text;
    return 0;
  }

  // 2. Parse the command line.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& error) {  // --help or --version
    return app.exit(error);
  } catch (const CLI::ParseError& error) {
    const std::string sentence = parse_failure(app, error);
    throw std::runtime_error(sentence.ends_with('?') ? sentence : sentence + ".");
  }

  // 3. Run the chosen subcommand.
  for (size_t i = 0; i < runs.size(); ++i) {
    if (*app.get_subcommand(static_cast<int>(i))) return runs[i]();
  }
  return 2;  // not reached: parse() requires a subcommand
}

/// Handles Ctrl-C and kill. Results are printed at the end, so there is nothing to save; the handler only
/// removes the progress line. Calls only functions that are allowed in a signal handler.
void end_at_signal(int signal) {
  constexpr std::string_view kSentence = "\r\033[Khearth-profiler: interrupted.\n";
  // The escape sequence is for terminals only.
  const std::string_view text = isatty(STDERR_FILENO) != 0 ? kSentence : kSentence.substr(4);
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
  _exit(128 + signal);  // the code that shells report for a program that a signal ended
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
  std::signal(SIGINT, hearth::end_at_signal);
  std::signal(SIGTERM, hearth::end_at_signal);
  std::signal(SIGXFSZ, SIG_IGN);  // lets write() fail with an error when a file would exceed the size limit
  try {
    return hearth::main_of(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "hearth-profiler: the system grants no more memory; measure with fewer tokens.\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "hearth-profiler: " << error.what() << "\n";
    return 2;
  }
}
