// Tiny models with layers of Mamba-2, for tests of the readers of files.
#pragma once

#include <string>

#include "tests/support/tiny_model.h"

namespace hearth::test {

/// The sizes of tiny_mamba()'s models.
struct TinyMamba {
  static constexpr int kModel = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kFf = 48;
  static constexpr int kGroups = 2, kInnerHeads = 6, kInnerHead = 4, kState = 8, kTaps = 4;
  static constexpr int kExperts = 4, kUsed = 2, kExpert = 20, kShared = 24;
  static constexpr int kInner = kInnerHeads * kInnerHead, kChannels = kInner + 2 * kGroups * kState;
};

/// Makes a model with the keys and tensors that today's converter writes for the architecture: "nemotron_h"
/// or "nemotron_h_moe" (layers: Mamba-2, FFN, attention, Mamba-2), or "granitehybrid" (layers: Mamba-2,
/// attention; each with a dense FFN).
TinyModel tiny_mamba(const std::string& architecture);

}  // namespace hearth::test
