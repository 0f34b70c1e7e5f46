// hearth-profiler count: which neurons of a model are active, kept for placing them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hearth {

/// Adds the subcommand; what is returned runs it and returns the exit code. Throws what the work throws.
std::function<int()> add_count_command(CLI::App& app);

}  // namespace hearth
