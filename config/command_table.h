// The commands of hearthd: `hearthd pull`, `list`, `rm`, `show`. Plain data: name, arguments, options and
// help.
//
// Dispatch, `hearthd --help`, `hearthd COMMAND --help`, docs/configuration.md, man pages and completions come
// from this table. An option that the server has too (--models) is a row of option_table(), named in
// `shared`, so it has one help text, one environment variable and one key in the file. Constant, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hearth {

/// An option that only this command has. It is only a flag: no environment variable, no key in the file.
struct CommandOption {
  std::string_view name;   // "sha256": the flag without its dashes
  std::string_view value;  // what the help calls the value: "HEX"; empty: the flag takes none
  std::string_view help;   // one or two sentences
};

struct CommandSpec {
  std::string_view name;       // "pull"
  std::string_view arguments;  // "[MODEL]", as the usage line shows it
  size_t min_arguments, max_arguments;
  std::string_view help;                 // one sentence, for lists of commands
  std::string_view details;              // a longer explanation, in one paragraph
  std::vector<std::string_view> shared;  // rows of option_table(Program::kHearthd)
  std::vector<CommandOption> own;
  std::vector<std::string_view> examples;  // whole command lines
};

/// The commands in the order in which they are shown.
std::span<const CommandSpec> command_table();
/// The command of this name, or null if there is none.
const CommandSpec* find_command(std::string_view name);

}  // namespace hearth
