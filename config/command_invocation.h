// The command line of one of hearthd's commands (config/command_table.h), read and checked.
//
// Called once by main, before any thread exists.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/command_table.h"
#include "config/environment.h"
#include "config/invocation.h"

namespace hearth {

struct CommandInvocation {
  const CommandSpec* command = nullptr;
  bool help = false;                       // --help was given: nothing else was read
  std::vector<std::string> arguments;      // MODEL, NAME...
  std::map<std::string, std::string> own;  // the command's own options that were given; flags have ""
  Options options;                         // shared options, and all that the environment and the file set
  std::vector<std::string> warnings;       // sentences: what was ignored

  bool has(const std::string& name) const { return own.contains(name); }
  /// The option's value, or `otherwise` if it was not given.
  std::string value(const std::string& name, const std::string& otherwise = {}) const;
  /// Like value(), as a whole number from least to most. Throws ConfigError for anything else.
  int number(const std::string& name, int otherwise, int least, int most) const;
};

/// Returns true if the first of these arguments (argv without the program's name) is not a flag, so it must
/// be a command.
bool is_command(const std::vector<std::string>& arguments);

/// Throws ConfigError: an unknown command or flag, a bad value, too few or too many arguments.
CommandInvocation read_command(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace hearth
