// Mixtures of experts: how a layer's router chooses experts for each token, and the experts' weights.
//
// An expert is a small FFN. A layer has many of them but uses only a few per token: the layer's router gives
// each expert a logit for the token and chooses the experts with the highest scores. The layer's output is
// the sum of their outputs, each multiplied by its weight (Shazeer et al. 2017). This file is data only:
// Backend::route() chooses, and Backend::experts() computes. Views never own. Used by the engine and every
// backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matrix.h"
#include "kernels/neurons.h"

namespace hearth {

/// The function that turns the router's logits into the scores by which experts are chosen.
enum class RouterScore : uint8_t {
  kSoftmax,          // softmax over all experts
  kSigmoid,          // 1 / (1 + e^-logit), separately for each expert
  kSoftmaxOfChosen,  // the logits; weights are the softmax of the chosen experts' logits
};

/// The rule by which a token's experts and their weights follow from its router's logits:
///   1. score = the logit, transformed by RouterScore. For choosing only, choice_bias is added.
///   2. If there are groups, only experts of the n_groups_used best groups can be chosen.
///   3. The n_used experts with the highest scores are chosen, the highest first.
///   4. weight = the expert's score without bias (for kSoftmaxOfChosen, the softmax of this score over the
///      chosen experts). If `renormalize`, the weight is divided by the sum of the chosen experts' weights
///      unless the sum is 0. Then it is multiplied by `scale`, and after that by the expert's weight_scales.
/// If two scores are equal, the expert or group with the lower number wins. If one of a token's logits or
/// biases is NaN, all weights of the token are NaN, so that a broken model is noticed; the token still gets
/// n_used different experts. REQUIRES: 1 <= n_used <= n_experts; n_groups divides n_experts; 1 <=
/// n_groups_used <= n_groups; the used groups have at least n_used experts.
struct Router {
  int n_experts = 0;
  int n_used = 0;  // experts of a token
  RouterScore score = RouterScore::kSoftmax;
  const float* choice_bias = nullptr;  // [n_experts] or null; the backend's memory
  int n_groups = 1;                    // groups of n_experts / n_groups neighboring experts
  int n_groups_used = 1;
  bool group_by_best = false;  // true: a group has the score of its best expert (DeepSeek-V2); false: the sum
                               // of its two best scores (DeepSeek-V3)
  bool renormalize = false;
  float scale = 1.0f;
  const float* weight_scales = nullptr;  // [n_experts] or null; the backend's memory
};

/// The experts of a step's tokens, in memory of the backend that chose them.
struct ExpertChoice {
  int n_tokens = 0;
  int n_used = 0;
  const int32_t* experts = nullptr;  // [n_tokens, n_used]: a token's experts, all different, the best one
                                     // first
  const float* weights = nullptr;    // [n_tokens, n_used]
};

/// One expert: out = down (act(gate x) * (up x)), or down act(up x) without a gate. Biases are added to the
/// products. A matrix may be a range of rows of a larger tensor; for example, gate and up may be the halves
/// of one tensor.
///
/// If `down_columns` is set, neurons whose value is zero are skipped: an up row is read only if act(gate) is
/// not zero (without a gate, all up rows are read), and a down column only if the value is not zero. `down`
/// is not read then. Either all experts of a layer have down columns, or none of them does.
struct Expert {
  Matrix gate;                       // [d_expert, d_model]; null without a gate
  Matrix up;                         // [d_expert, d_model]
  Matrix down;                       // [d_model, d_expert]
  const float* gate_bias = nullptr;  // [d_expert] or null
  const float* up_bias = nullptr;    // [d_expert] or null
  const float* down_bias = nullptr;  // [d_model] or null
  DownColumns down_columns = {};     // the weights of `down`, one row per neuron, without the bias; or empty
};

/// The experts of one layer that are in a device's memory. Each of them has a slot: the expert in slot s has
/// rows [s * d_expert, (s + 1) * d_expert) of gate and up, and rows [s * d_model, (s + 1) * d_model) of down.
/// If the experts have down columns, each slot has packed columns (kernels/quant/coded_columns.h) instead of
/// rows of down. Pointers are device memory. A layer whose experts are all in host memory has no slots.
struct DeviceExperts {
  Matrix gate;                           // [n_slots * d_expert, d_model]; null without a gate
  Matrix up;                             // [n_slots * d_expert, d_model]
  Matrix down;                           // [n_slots * d_model, d_expert]; null with down columns
  DownColumns down_columns;              // those of slot 0, without the bias; or empty
  size_t down_slot_bytes = 0;            // from the down columns of a slot to those of the next one
  const float* gate_bias = nullptr;      // [n_experts, d_expert] by expert, or null
  const float* up_bias = nullptr;        // [n_experts, d_expert] by expert, or null
  const float* down_bias = nullptr;      // [n_experts, d_model] by expert, or null
  const float* choice_bias = nullptr;    // [n_experts] Router::choice_bias, or null
  const float* weight_scales = nullptr;  // [n_experts] Router::weight_scales, or null
  Expert shared;                         // the shared expert if it is weighted by a gate; or empty
  Matrix shared_gate;                    // [1, d_model], its gate
  int32_t* slot_of = nullptr;            // [n_experts] an expert's slot, or -1 if it has none
  std::span<const int32_t> slots;        // [n_experts] host copy of slot_of
  int n_slots = 0;
};

/// The outputs of a shared expert that is weighted by a gate: every token uses this expert, with the weight
/// sigmoid(logit). Pointers are device memory.
struct GatedSharedExpert {
  const float* logits = nullptr;  // [n_tokens]; null: the layer has none
  const float* rows = nullptr;    // [n_tokens, d_model]
};

/// Counts of a layer's chosen and read experts and neurons, summed over calls.
struct ExpertCounts {
  int64_t chosen = 0;    // pairs of a token and one of its experts
  int64_t read = 0;      // experts whose weights were read, each counted once per step
  int64_t resident = 0;  // pairs among `chosen` that a device computed
  // pairs among `resident` whose expert was copied to the device for its step; all pairs of a step that
  // copied experts without a hand-over
  int64_t streamed = 0;
  // The next three are sums over the pairs, counted only if the activation has zeros:
  int64_t neurons = 0;  // all neurons: d_expert for each pair
  int64_t passed = 0;   // neurons whose act(gate) is not zero; equal to `active` if zeros are not skipped
  int64_t active = 0;   // neurons whose value is not zero
  // Counted only for experts with down_columns that the CPU computes. A row that several tokens want counts
  // once per step:
  int64_t up_rows = 0, down_rows = 0;  // rows read from memory; up_rows is counted only if there are gates
};

}  // namespace hearth
