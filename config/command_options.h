// The table's options on the command line of a hearth-profiler subcommand.
#pragma once

#include <initializer_list>
#include <string_view>

#include "config/options.h"

namespace CLI {
class App;
}

namespace hearth {

/// Adds options of the table by name to a subcommand, with the flags, one-letter names, help, range, default
/// and words that the table gives. A value that the table does not allow is a CLI::ValidationError that names
/// the flag and says what is expected. If a flag is given twice, the last value counts. `options` holds the
/// defaults and receives the values; it must outlive the parsing. REQUIRES: names of Program::kProfiler.
void add_options(CLI::App& command, std::initializer_list<std::string_view> names, Options& options);

}  // namespace hearth
