// Runs a loaded model before it is served, so that the first request takes no longer than later ones.
//
// The first step of a model has one-time costs: it reads pages of the mapped file for the first time, touches
// the pages of scratch, keys and values, and starts threads. On a GPU, the first long prompt fills the
// staging buffers, and the second step of a shape is recorded (kernels/cuda/runtime/step_recorder.h). Call
// warm_up() on the loading thread, after loading and before the Engine is created; the keys and values that
// its steps write are never read. Set up observers of the model's neurons before calling it, because a device
// discards its recorded steps when it allocates memory for observers.
#pragma once

#include <functional>

#include "engine/step/batch.h"

namespace hearth {

/// Describes how the Engine will run the model.
struct WarmUp {
  int n_slots = 1;         // EngineOptions::n_slots
  int context_tokens = 1;  // EngineOptions::context_tokens
  /// Switches the counting of single neurons on or off; it is off at first. Empty: neurons will not be
  /// counted. Steps with counting are recorded separately from steps without it.
  std::function<void(bool)> count = {};
};

/// Runs a prompt and decodes some tokens after it. These steps read all weights that every token needs. On a
/// GPU, the prompt has StepLimits::long_step tokens, a short prompt follows, and the decode steps of one
/// sequence of up to 1,024 tokens are recorded, and so are predictions (StepLimits::predicts).
void warm_up(ForwardModel& model, const WarmUp& how);

}  // namespace hearth
