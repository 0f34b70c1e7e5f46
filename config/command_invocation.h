// Reads and checks the command line of one of hearthd's commands (config/command_table.h).
//
// main calls this once, before any thread exists.
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
  bool help = false;                   // --help was given, and nothing else was read
  std::vector<std::string> arguments;  // MODEL, NAME...
  /// The given options that only this command has. The value is "" if an option takes no value.
  std::map<std::string, std::string> own;
  Options options;  // options shared with the server, including those set in the environment and the file
  std::vector<std::string> warnings;  // sentences that name what was ignored

  bool has(const std::string& name) const { return own.contains(name); }
  /// Returns the option's value, or `otherwise` if the option was not given.
  std::string value(const std::string& name, const std::string& otherwise = {}) const;
  /// Like value(), but returns a whole number from `least` to `most`. Throws ConfigError for any other text.
  int number(const std::string& name, int otherwise, int least, int most) const;
};

/// Returns whether the first argument is the name of a command.
/// arguments: argv without the program's name.
bool is_command(const std::vector<std::string>& arguments);

/// Throws ConfigError for an unknown flag, an invalid value, and too few or too many arguments.
/// REQUIRES: is_command(arguments).
CommandInvocation read_command(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace hearth
