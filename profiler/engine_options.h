// Translates the user's options (config/options.h) to the engine's options. No other file uses both types of
// options. Called by hearthd and hearth-profiler before they load a model; any thread.
#pragma once

#include <optional>
#include <string>

#include "config/options.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Sets the options that all models of a program share: threads, instruction set, activation bits, use of
/// NUMA nodes, prompt tokens per step and the RAM budget.
LoadOptions host_options(const Options& options);

/// Sets path, threads, instruction set, context, slots, type of keys and values, activation, sparsity, device
/// and budgets. The caller adds everything that is not a user's option: open files, a known activity file, a
/// placement, a trace, callbacks.
LoadOptions engine_options(const Options& options);

/// The engine's instruction set, or nullopt for the best one of this processor.
std::optional<Isa> engine_isa(Options::Isa isa);

ActivationBits engine_activation_bits(Options::ActivationBits bits);
KvType engine_kv_type(Options::KvType type);

/// Returns the split of a model between CPU and GPU for a GPU that is too small for the model.
DeviceSplit engine_split(Options::Split split);

/// LoadOptions::n_kv_contexts for --kv-contexts.
int engine_kv_contexts(int asked);

/// The sparsity mode's name, as in SparsityRequest.
std::string engine_sparsity(Options::Sparsity sparsity);
/// The value of the user's option that requests this sparsity mode.
Options::Sparsity sparsity_option(Sparsity mode);

/// Converts an option in GiB to bytes.
uint64_t bytes_of_gib(double gib);

}  // namespace hearth
