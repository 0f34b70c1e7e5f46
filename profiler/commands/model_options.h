// What every subcommand that runs a model asks for, and the loading of that model.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "engine/model_runtime.h"
#include "profiler/placement/solved_placement.h"

namespace hearth {

struct ModelOptions {
  std::string model;
  int n_threads = 0;
  std::string isa = "auto";
  std::string ffn_activation;
  std::string sparsity = "exact";
  std::optional<double> predictor_threshold;
  bool verify_predictor = false;
  bool calibrating = false;  // no flag: see SparsityRequest
  // Of subcommands that have add_device_options(); the others run on the CPU.
  std::string device = "cpu";
  std::optional<double> vram_budget_gib, ram_budget_gib;  // not given: what is free
  std::string split = "neurons";
  std::string placement = "neutral";
  std::string prefetch_by = "gather";
  bool no_prefetch = false, no_cpu_share = false, no_graphs = false;
  // No flags:
  Trace* trace = nullptr;  // outlives the model
  int n_slots = 1;
  std::optional<SolvedPlacement> placed;  // solve for the GPU with this; then `placement` is not looked at
};

/// Adds the flags of a model and its machine to a subcommand; `options` must outlive its parsing.
void add_loading_options(CLI::App& command, ModelOptions& options);

/// Adds those, and the flags of how its FFN is run.
void add_model_options(CLI::App& command, ModelOptions& options);

/// Adds the flags of what computes, and of how a GPU shares the work with the CPU. What a GPU does can be
/// switched off piece by piece, to measure what each piece is worth.
void add_device_options(CLI::App& command, ModelOptions& options);

/// Threads as asked, or one per physical core.
int thread_count(const ModelOptions& options);

/// Loads with one slot, with progress on the terminal. Throws as ModelRuntime::load.
std::unique_ptr<ModelRuntime> load_model(const ModelOptions& options, int context, int chunk);

}  // namespace hearth
