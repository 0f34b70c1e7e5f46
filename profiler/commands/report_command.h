// hearth-profiler report: a page with what is known, planned and measured of a model on a machine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hearth {

/// Adds the subcommand to `app`. The function returned runs it after parsing and returns the exit code; it
/// throws std::runtime_error for what the user can mend.
std::function<int()> add_report_command(CLI::App& app);

}  // namespace hearth
