// The table of hearthd's commands `hearthd pull`, `list`, `rm`, `show` and `connect`: their names,
// arguments, options and help.
//
// Dispatch, `hearthd --help`, `hearthd COMMAND --help`, docs/configuration.md, the manual pages and the
// completions are made from this table. Some options, such as --models, belong to a command and to the
// server. Such an option is a row of option_table(), and CommandSpec::shared lists its name, so that the
// command and the server have the same help text, environment variable and key in the file. Constant data;
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hearth {

/// An option that only this command has. It can be given only as a flag: it has no environment variable and
/// no key in the file.
struct CommandOption {
  std::string_view name;   // "sha256": the flag without its dashes
  std::string_view value;  // name of the value in the help: "HEX"; empty if the flag takes no value
  std::string_view help;   // one or two sentences
};

struct CommandSpec {
  std::string_view name;       // "pull"
  std::string_view arguments;  // "[MODEL]", as the usage line shows it
  size_t min_arguments, max_arguments;
  std::string_view brief;                // a line of the short help, of at most 50 characters
  std::string_view help;                 // one sentence, for lists of commands
  std::string_view details;              // a longer explanation, in one paragraph
  std::vector<std::string_view> shared;  // rows of option_table(Program::kHearthd)
  std::vector<CommandOption> own;
  std::vector<std::string_view> examples;  // whole command lines
};

/// Returns the commands in the order in which they are shown.
std::span<const CommandSpec> command_table();
/// Returns the command with this name, or null if there is none.
const CommandSpec* find_command(std::string_view name);

}  // namespace hearth
