// Plants a trace of a mixture's experts (engine/activity/expert_trace.h) without a model: experts are chosen
// as in synthetic models (planted_choice.h). Called by the synth command; one thread.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/activity/expert_trace.h"
#include "profiler/synthesis/planted_choice.h"

namespace hearth {

/// Fills `trace`, whose model, n_used and layers are set, with one sequence of n_tokens generated tokens.
/// Calls `progress` (may be empty) with the share that is done, and passes on what it throws. REQUIRES: the
/// spec is the trace's model; n_tokens > 0.
void plant_trace(const ModelSpec& spec, const ChoiceLaw& law, int n_tokens, ExpertTrace& trace,
                 const std::function<void(double)>& progress);

}  // namespace hearth
