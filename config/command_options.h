// Adds options of the option table to the command line of a hearth-profiler subcommand.
#pragma once

#include <initializer_list>
#include <string_view>

#include "config/options.h"

namespace CLI {
class App;
}

namespace hearth {

/// Adds options to a subcommand by their names in the table. The table gives their flags, one-letter names,
/// help, ranges, defaults and accepted words. A value that the table does not allow causes a
/// CLI::ValidationError, which names the flag and the expected values. If a flag is given twice, the last
/// value counts. `options` contains the defaults and receives the values; it must outlive the parsing.
/// REQUIRES: `names` are options of Program::kProfiler.
void add_options(CLI::App& command, std::initializer_list<std::string_view> names, Options& options);

}  // namespace hearth
