// The subcommands of hearth-profiler. Each is in a file of its own (commands/<name>_command.cpp), and
// main.cpp has a table of all of them.
//
// Each function adds a subcommand with its options to `app`, and returns a function that runs the subcommand.
// The returned function is called after parsing, does the work and returns the program's exit code. It throws
// std::exception with one sentence for the user. It must not outlive `app`.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hearth {

/// Measures prefill and decode speed, and compares it with what memory bandwidth allows.
std::function<int()> add_bench_command(CLI::App& app);
/// Finds thresholds below which neurons of a SwiGLU or GeGLU model may be skipped, and writes them to a file
/// beside the model.
std::function<int()> add_calibrate_command(CLI::App& app);
/// Converts the folder of a Hugging Face model to a GGUF file.
std::function<int()> add_convert_command(CLI::App& app);
/// Counts which neurons of a model are active, and stores the counts, which decide where neurons are placed.
std::function<int()> add_count_command(CLI::App& app);
/// Writes a model and PowerInfer's predictors for it into one file.
std::function<int()> add_join_command(CLI::App& app);
/// Measures the perplexity of a text.
std::function<int()> add_perplexity_command(CLI::App& app);
/// Predicts where the parts of a model would be placed on a machine, and how fast it would be.
std::function<int()> add_plan_command(CLI::App& app);
/// Measures this machine's speed and prints its machine profile.
std::function<int()> add_probe_command(CLI::App& app);
/// Writes a copy of a model with fewer bits per weight.
std::function<int()> add_quantize_command(CLI::App& app);
/// Replays a trace of the experts that tokens chose, and compares policies that decide which experts of a
/// mixture a GPU holds.
std::function<int()> add_replay_command(CLI::App& app);
/// Writes an HTML page about a model on a machine: its activity, the plan and measurements.
std::function<int()> add_report_command(CLI::App& app);
/// Makes a file with a model of random weights and planted activity.
std::function<int()> add_synth_command(CLI::App& app);
/// Trains predictors for a model and writes them to a file.
std::function<int()> add_train_command(CLI::App& app);

}  // namespace hearth
