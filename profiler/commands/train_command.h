// The train-predictors subcommand: makes predictors for a model and writes them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hearth {

/// Adds the subcommand; the result runs it once the command line was parsed, and returns the exit code.
/// Throws std::exception (one sentence).
std::function<int()> add_train_command(CLI::App& app);

}  // namespace hearth
