// The reference for ForwardPass: the forward pass of one sequence in plain loops.
//
// Sums are in double; values between stages are rounded to float and keys and values to half precision, as
// the contracts of kernels/backend.h require. This code shares nothing with the engine's pass except the
// facts (ModelSpec) and the bound weights.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace hearth::testing {

/// One token's FFN while it is computed.
struct ReferenceFfn {
  int layer;
  const std::vector<float>& layer_input;  // [d_model] residual stream before the layer's attention
  const std::vector<float>& residual;     // [d_model] residual stream after the attention
  const std::vector<float>& gate;  // [d_ff] products with the gate rows, or the up rows if there are no gates
  std::vector<float>& hidden;      // [d_ff] values, the down projection's input; on_ffn may change them
};

/// Returns the logits [n_tokens, n_vocab] of every position. rope: must have the pairing of spec.arch.rope;
/// the caller chooses the frequencies. on_ffn: called with each layer's FFN of each token, before its down
/// projection.
std::vector<float> reference_forward(const ModelSpec& spec, const Weights& weights, const Rope& rope,
                                     std::span<const int32_t> tokens,
                                     const std::function<void(const ReferenceFfn&)>& on_ffn = {});

}  // namespace hearth::testing
