// Tiny models with gated delta nets, for tests of the readers of files.
#pragma once

#include <string>

#include "tests/support/tiny_model.h"

namespace hearth::test {

/// The sizes of tiny_delta()'s models. Layer 3 is full; layers 0, 1, 2 and 4 are recurrent.
struct TinyDelta {
  static constexpr int kLayers = 5, kModel = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFf = 48;
  static constexpr int kKeyHeads = 2, kValueHeads = 6, kState = 8, kTaps = 4;
  static constexpr int kExperts = 4, kUsed = 2, kExpert = 20, kShared = 24;
  static constexpr int kKeyDim = kKeyHeads * kState, kValueDim = kValueHeads * kState;
  static constexpr int kConvDim = 2 * kKeyDim + kValueDim;
};

/// Makes a model with the keys and tensors that today's converter writes for the architecture: "qwen35",
/// "qwen35moe" (experts in all layers and no feed_forward_length) or "qwen3next" (likewise, and ssm_ba).
TinyModel tiny_delta(const std::string& architecture);

/// Replaces attn_qkv and attn_gate in a recurrent layer of a tiny_delta("qwen3next") by ssm_in, as in files
/// of December 2025. The weights are other random numbers.
void pack_inputs(TinyModel& model, int layer);

}  // namespace hearth::test
