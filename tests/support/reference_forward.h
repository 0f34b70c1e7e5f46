// The forward pass of one sequence in plain loops: what ForwardPass is checked against.
//
// Sums are in double; values between stages are rounded to float and keys and values to half precision, as
// the contracts of kernels/backend.h have them. Nothing is shared with the engine's pass but the facts
// (ModelSpec) and the bound weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model_spec.h"
#include "engine/weights.h"
#include "kernels/backend.h"

namespace hearth::testing {

/// Logits [n_tokens, n_vocab] of every position. rope: with spec.arch.rope's pairing; its frequencies are the
/// caller's own.
std::vector<float> reference_forward(const ModelSpec& spec, const Weights& weights, const Rope& rope,
                                     std::span<const int32_t> tokens);

}  // namespace hearth::testing
