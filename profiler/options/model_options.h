// Defines the options that every subcommand shares if it runs a model, and the function that loads the model.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "config/options.h"
#include "engine/model_runtime.h"
#include "engine/placement/placement_facts.h"

namespace hearth {

/// The options that users can set (Options), and further settings that only the code of subcommands sets.
struct ModelOptions : Options {
  bool calibrating = false;                              // see SparsityRequest
  bool nextn = false;                                    // see LoadOptions
  std::shared_ptr<const ModelFile> assistant = nullptr;  // see LoadOptions
  Trace* timeline = nullptr;                             // outlives the model
  int n_slots = 1;        // slots of the loaded model; Options::slots is only for plans
  int n_kv_contexts = 0;  // as LoadOptions::n_kv_contexts; Options::kv_contexts is only for plans
  /// If set, the placement on the GPU is solved with these inputs, and `placement` is ignored.
  std::optional<PlacementFacts> placed;
};

/// Adds the options that describe a model and its machine to a subcommand. The subcommand computes on the CPU
/// unless add_device_options() is called too. `options` must outlive the parsing.
void add_loading_options(CLI::App& command, ModelOptions& options);

/// Adds the same options as add_loading_options(), and options that select how the FFN is computed.
void add_model_options(CLI::App& command, ModelOptions& options);

/// Adds options that select the device, and how a GPU shares the work with the CPU. Features of the GPU can
/// be switched off one by one, to measure what each of them gains.
void add_device_options(CLI::App& command, ModelOptions& options);

/// The number of threads that the user requested, or one per physical core.
int thread_count(const ModelOptions& options);

/// Loads the model with progress on the terminal. Throws like ModelRuntime::load, and std::invalid_argument
/// (one sentence) for a model without logits, because all subcommands that run a model need logits.
std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk);

}  // namespace hearth
