// Collects the options that a program starts with from flags, environment and file, in this order of
// precedence, and records where each came from.
//
// Called once by main, before any thread exists.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/option_table.h"
#include "config/options.h"

namespace hearth {

/// One sentence: which value, where it came from, what was expected. main ends with exit code 2.
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
  std::vector<std::string> arguments;  // as they were given
  Options options;
  Action action = Action::kServe;
  std::vector<Setting> settings;      // every option, in the table's order; secrets are not shown
  std::vector<std::string> warnings;  // sentences to log: what was ignored
};

/// arguments: argv without the program's name. Throws ConfigError: an unknown flag or key, a bad value, a
/// file that cannot be read. Precedence: flag, environment, file, default; a list comes whole from the
/// first source that has it. A variable that is set but empty counts as absent. If help or the version is
/// asked for, nothing else is read.
Invocation read_invocation(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace hearth
