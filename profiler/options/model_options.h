// The options of every subcommand that runs a model, and the function that loads the model.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "config/options.h"
#include "engine/model_runtime.h"
#include "engine/placement/placement_facts.h"

namespace hearth {

/// The options of the table, which users can give, and settings that only subcommands make.
struct ModelOptions : Options {
  bool calibrating = false;   // see SparsityRequest
  Trace* timeline = nullptr;  // outlives the model
  int n_slots = 1;            // for the model that is loaded; `slots` is for plans
  int n_kv_contexts = 0;      // for the model that is loaded, see LoadOptions; `kv_contexts` is for plans
  /// If set, the GPU's placement is solved with these inputs, and `placement` is ignored.
  std::optional<PlacementFacts> placed;
};

/// Adds the options of a model and its machine to a subcommand. The subcommand computes on the CPU unless
/// add_device_options() is called too. `options` must outlive the parsing.
void add_loading_options(CLI::App& command, ModelOptions& options);

/// Adds the options of add_loading_options(), and those that select how the FFN runs.
void add_model_options(CLI::App& command, ModelOptions& options);

/// Adds the options of the device, and of how a GPU shares the work with the CPU. Parts of a GPU's work can
/// be switched off one by one, to measure the gain of each.
void add_device_options(CLI::App& command, ModelOptions& options);

/// The number of threads that was asked for, or one per physical core.
int thread_count(const ModelOptions& options);

/// Loads the model with progress on the terminal. Throws like ModelRuntime::load, and std::invalid_argument
/// (one sentence) for a model without logits: all subcommands that run one need them.
std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk);

}  // namespace hearth
