// Runs an assistant (engine/model/assistant_weights.h) beside its model's own pass.
//
// The assistant has no keys and values. Its attention reads those of two layers of the model, where the
// model's steps put them. Between steps, the pass keeps the hidden states of the tokens that ended each
// sequence, of which one is needed for the next guess.
//
// One backend computes the whole assistant: the CPU, since the layers that it reads must be on the CPU
// (why_not_assisted()).
//
// ModelRuntime owns it; engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model/assistant_weights.h"
#include "engine/model/devices.h"
#include "engine/step/batch.h"
#include "kernels/backend.h"

namespace hearth {

class AssistantPass {
 public:
  /// kv: the model's. bounds: the model's, made with bounds_with_assistant(); n_states is the number of
  /// slots. All references must outlive this object. Throws std::bad_alloc. REQUIRES: why_not_assisted() is
  /// empty.
  AssistantPass(Backend& cpu, const AssistantWeights& weights, const KvMemory& kv, const PassBounds& bounds);

  /// Bytes that the constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const AssistantWeights& weights, const PassBounds& bounds);

  /// Call after each step of the model. last: the hidden states of the tokens with logits, after the output
  /// norm [logit_rows.size(), d_of_model].
  void after_step(const Batch& batch, const float* last);

  /// See ForwardModel::predict().
  std::span<const float> predict(const Batch& batch, bool first);

 private:
  /// The hidden states of the tokens that ended a slot's sequence in the last step. Some of them may be
  /// rejected drafts.
  struct Slot {
    uint64_t sequence = 0;
    std::vector<int> positions;
    std::vector<float> hidden;  // [positions.size(), d_of_model]
    int position = 0;           // of the sequence's next token, while guesses follow it
    std::vector<float> next;    // [d_of_model] enters the next guess
  };
  void begin_draft(const Batch& batch, size_t token);

  Backend& cpu_;
  const AssistantWeights& weights_;
  const Devices devices_;
  const PassBounds bounds_;
  const KvMemory kv_;
  ForwardPass pass_;
  Buffer joined_;  // [n_slots, 2 * d_of_model]
  Buffer after_;   // [n_slots, d_of_model]
  std::vector<Slot> slots_;
  Batch rows_;
};

/// Returns the bounds of the model's own pass, so that an AssistantPass can share its backend.
PassBounds bounds_with_assistant(PassBounds bounds, const AssistantWeights& weights);

/// Returns the reason why the assistant cannot draft, as a sentence's second half; empty if it can. devices:
/// the model's.
std::string why_not_assisted(const AssistantWeights& weights, const Devices& devices);

}  // namespace hearth
