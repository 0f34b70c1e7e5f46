// What ForwardPass gives to the code that computes a recurrent layer of a step, whatever the layer's kind.
#pragma once

#include <span>

#include "engine/model/weights.h"
#include "kernels/recurrent.h"

namespace hearth {

/// One recurrent layer of a step; a view, valid while the layer is computed.
struct RecurrentLayer {
  const LayerWeights& weights;
  const RecurrentMemory& memory;
  std::span<const RecurrentRun> runs;                        // they cover all tokens
  std::span<const RecurrentCopy> state_copies, tail_copies;  // no state_copies if there are no states
  int n_tokens = 0;
  const float* normed = nullptr;  // [n_tokens, d_model] the layer's input after its norm
  float* out = nullptr;           // [n_tokens, d_model]
  bool accumulate = true;         // out += ..., else out = ...
};

}  // namespace hearth
