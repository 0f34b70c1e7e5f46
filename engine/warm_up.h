// Runs a loaded model before it is served, so that the first request costs no more than the next.
//
// The first step of a model pays for what later ones find done: pages of a mapped file that nothing has read yet, pages of
// scratch and of keys and values, threads that start. A GPU's first long prompt fills its staging buffers, and its second
// step of a shape is recorded (kernels/cuda/runtime/step_recorder.h). warm_up() is called between load and Engine, on the
// load's thread; nobody reads what its steps write to the KV blocks. What observes the model's neurons must be set up
// before: a device drops its recordings when it gets memory for that.
#pragma once

#include <functional>

#include "engine/step/batch.h"

namespace hearth {

/// How the Engine will run the model.
struct WarmUp {
  int n_slots = 1;         // EngineOptions::n_slots
  int context_tokens = 1;  // EngineOptions::context_tokens
  /// Switches the counting of single neurons on or off, off at first; empty: they will not be counted. Steps in which they
  /// are counted are recorded by themselves.
  std::function<void(bool)> count = {};
};

/// Runs a prompt, and tokens behind it. Reads all weights that every token needs. Where a GPU computes, the prompt is as long
/// as StepLimits::long_step, a short one follows, and the decoding steps of one sequence of up to 1,024 tokens are recorded.
void warm_up(ForwardModel& model, const WarmUp& how);

}  // namespace hearth
