// The subcommands of hearth-profiler, one file each (commands/<name>_command.cpp). main.cpp is their table.
//
// Each function adds a subcommand with its options to `app`. What it returns runs the subcommand: it is called
// after parsing, does the work and returns the program's exit code. It throws std::exception with one sentence
// for the user, and must not outlive `app`.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hearth {

/// Prefill and decode speed, beside what memory allows.
std::function<int()> add_bench_command(CLI::App& app);
/// Thresholds below which neurons of a SwiGLU or GeGLU model may be skipped; writes them beside the model.
std::function<int()> add_calibrate_command(CLI::App& app);
/// Which neurons of a model are active, kept for placing them.
std::function<int()> add_count_command(CLI::App& app);
/// Perplexity of a text.
std::function<int()> add_perplexity_command(CLI::App& app);
/// Where the parts of a model would be placed on a machine, and how fast it would be.
std::function<int()> add_plan_command(CLI::App& app);
/// What this machine can do.
std::function<int()> add_probe_command(CLI::App& app);
/// A page with what is known, planned and measured of a model on a machine.
std::function<int()> add_report_command(CLI::App& app);
/// A model of random weights with planted activity, as a file.
std::function<int()> add_synth_command(CLI::App& app);
/// Trains predictors for a model and writes them.
std::function<int()> add_train_command(CLI::App& app);

}  // namespace hearth
