// What every subcommand that runs a model asks for, and how that model is loaded.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "config/options.h"
#include "engine/model_runtime.h"
#include "profiler/placement/solved_placement.h"

namespace hearth {

/// What a user can say about it (the table's options), and what only the subcommands themselves say.
struct ModelOptions : Options {
  bool calibrating = false;               // see SparsityRequest
  Trace* timeline = nullptr;              // outlives the model
  int n_slots = 1;                        // of the model that is loaded; `slots` is what a plan is asked for
  std::optional<SolvedPlacement> placed;  // solve for the GPU with this; then `placement` is not looked at
};

/// Adds the options of a model and its machine to a subcommand, which computes on the CPU unless
/// add_device_options() follows. `options` must outlive the parsing.
void add_loading_options(CLI::App& command, ModelOptions& options);

/// Adds those, and the options of how its FFN is run.
void add_model_options(CLI::App& command, ModelOptions& options);

/// Adds the options of what computes, and of how a GPU shares the work with the CPU. What a GPU does can be
/// switched off piece by piece, to measure what each piece is worth.
void add_device_options(CLI::App& command, ModelOptions& options);

/// Threads as asked, or one per physical core.
int thread_count(const ModelOptions& options);

/// Loads with one slot, with progress on the terminal. Throws as ModelRuntime::load.
std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk);

}  // namespace hearth
