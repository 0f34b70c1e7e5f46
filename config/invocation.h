// Collects the options with which a program starts, and records the source of each. The sources in order of
// precedence are flags, environment and file.
//
// main calls this once, before any thread exists.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/option_table.h"
#include "config/options.h"

namespace hearth {

/// One sentence that names the invalid value, its source, and what was expected. main exits with code 2.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One option's effective value, for the log.
struct Setting {
  std::string name, value;
  std::string source;  // "default", "flag", "environment" or "file PATH"
};

struct Invocation {
  std::vector<std::string> arguments;  // the arguments as they were given
  Options options;
  Action action = Action::kServe;
  std::vector<Setting> settings;      // all options in the order of the table, without the values of secrets
  std::vector<std::string> warnings;  // sentences for the log that name what was ignored
};

/// arguments: argv without the program's name. Throws ConfigError for an unknown flag or key, an invalid
/// value, or a file that cannot be read. Precedence: flag, environment, file, default. A list is taken as a
/// whole from the first source that has it. A variable that is set but empty counts as absent. If the
/// arguments request an action without options, such as --help or --version, ignores the environment and the
/// file.
Invocation read_invocation(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace hearth
