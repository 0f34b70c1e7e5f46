// Translates the user's options (config/options.h) to the engine's. Only this file knows the enums of both.
// Called by hearthd and hearth-profiler before they load a model; any thread.
#pragma once

#include <optional>
#include <string>

#include "config/options.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Sets what all models of a program share: threads, instruction set, activation bits, use of NUMA nodes,
/// prompt tokens of a step and the RAM budget.
LoadOptions host_options(const Options& options);

/// Sets path, threads, instruction set, context, slots, type of keys and values, activation, sparsity, device
/// and budgets. The caller adds what is not an option: open files, a known activity file, a placement, a
/// trace, callbacks.
LoadOptions engine_options(const Options& options);

/// The engine's instruction set; nullopt: the best that this processor has.
std::optional<Isa> engine_isa(Options::Isa isa);

ActivationBits engine_activation_bits(Options::ActivationBits bits);
KvType engine_kv_type(Options::KvType type);

/// How the model is split with a GPU that is too small for it.
DeviceSplit engine_split(Options::Split split);

/// LoadOptions::n_kv_contexts for --kv-contexts.
int engine_kv_contexts(int asked);

/// The name of the sparsity mode, as in SparsityRequest.
std::string engine_sparsity(Options::Sparsity sparsity);
/// The option that asks for this sparsity mode.
Options::Sparsity sparsity_option(Sparsity mode);

/// Converts --vram-budget and --ram-budget to bytes.
uint64_t bytes_of_gib(double gib);

}  // namespace hearth
