// What the user asked for (config/options.h) as what the engine is asked for: the one place that knows the words of
// both. Called by hearthd and hearth-profiler before they load a model; any thread.
#pragma once

#include <optional>
#include <string>

#include "config/options.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Path, threads, instruction set, context, slots, activation, sparsity, device and budgets. The caller adds what is
/// no option: files already open, a known activity file, a placement, a trace, who is told.
LoadOptions engine_options(const Options& options);

/// nullopt: the best this processor has.
std::optional<Isa> engine_isa(Options::Isa isa);

/// The name of the mode, as SparsityRequest takes it.
std::string engine_sparsity(Options::Sparsity sparsity);
/// The option that asks for this mode.
Options::Sparsity sparsity_option(Sparsity mode);

/// --vram-budget and --ram-budget as bytes.
uint64_t bytes_of_gib(double gib);

}  // namespace hearth
