// Runs a loaded model before it is served, so that the first request costs no more than later ones.
//
// The first step of a model pays one-time costs: pages of the mapped file that nothing has read yet, pages of
// scratch and of keys and values, the start of threads. A GPU's first long prompt fills its staging buffers,
// and its second step of a shape is recorded (kernels/cuda/runtime/step_recorder.h). warm_up() is called
// between load and Engine, on the loading thread; nobody reads what its steps write to the KV blocks. Set up
// observers of the model's neurons first, because a device drops its recordings when it gets memory for them.
#pragma once

#include <functional>

#include "engine/step/batch.h"

namespace hearth {

/// How the Engine will run the model.
struct WarmUp {
  int n_slots = 1;         // EngineOptions::n_slots
  int context_tokens = 1;  // EngineOptions::context_tokens
  /// Switches the counting of single neurons on or off (initially off); empty: they will not be counted.
  /// Steps that count are recorded separately.
  std::function<void(bool)> count = {};
};

/// Runs a prompt and some tokens after it, and so reads all weights that every token needs. On a GPU, the
/// prompt has StepLimits::long_step tokens, a short one follows, and the decoding steps of one sequence of up
/// to 1,024 tokens are recorded.
void warm_up(ForwardModel& model, const WarmUp& how);

}  // namespace hearth
