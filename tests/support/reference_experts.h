// The reference for how backends choose and compute experts, in plain loops over doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/quant/dequantize.h"
#include "tests/support/reference_ops.h"

namespace hearth::testing {

struct ReferenceChoice {
  std::vector<int32_t> experts;  // best first
  std::vector<double> weights;
};

/// Returns the indices of the n highest scores, the highest first; of equal scores, the lower index first.
inline std::vector<int32_t> best_of(const std::vector<double>& scores, int n) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(n));
  return order;
}

inline std::vector<double> reference_softmax(std::vector<double> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  for (double& value : x) value = std::exp(value - largest);
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  for (double& value : x) value /= sum;
  return x;
}

/// Chooses experts by one token's logits [n_experts]. REQUIRES: none is NaN.
inline ReferenceChoice reference_route(const float* logits, const Router& router) {
  std::vector<double> scores(logits, logits + router.n_experts);
  if (router.score == RouterScore::kSoftmax) scores = reference_softmax(scores);
  if (router.score == RouterScore::kSigmoid) {
    for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
  }
  std::vector<double> preferences = scores;
  for (size_t e = 0; router.choice_bias != nullptr && e < preferences.size(); ++e) {
    preferences[e] += double{router.choice_bias[e]};
  }
  const size_t size = preferences.size() / static_cast<size_t>(router.n_groups);
  std::vector<double> group_scores;
  for (size_t first = 0; first < preferences.size(); first += size) {
    std::vector<double> of_group(preferences.begin() + static_cast<int64_t>(first),
                                 preferences.begin() + static_cast<int64_t>(first + size));
    std::sort(of_group.rbegin(), of_group.rend());
    group_scores.push_back(of_group[0] + (router.group_by_best || size == 1 ? 0.0 : of_group[1]));
  }
  std::vector<double> allowed(preferences.size(), -INFINITY);
  for (const int32_t group : best_of(group_scores, router.n_groups_used)) {
    for (size_t e = static_cast<size_t>(group) * size; e < static_cast<size_t>(group + 1) * size; ++e) {
      allowed[e] = preferences[e];
    }
  }
  ReferenceChoice choice{best_of(allowed, router.n_used), {}};
  for (const int32_t e : choice.experts) choice.weights.push_back(scores[static_cast<size_t>(e)]);
  if (router.score == RouterScore::kSoftmaxOfChosen) choice.weights = reference_softmax(choice.weights);
  const double sum = std::accumulate(choice.weights.begin(), choice.weights.end(), 0.0);
  for (double& weight : choice.weights) {
    if (router.renormalize && sum != 0) weight /= sum;
    weight *= double{router.scale};
  }
  for (size_t j = 0; router.weight_scales != nullptr && j < choice.weights.size(); ++j)
    choice.weights[j] *= double{router.weight_scales[choice.experts[j]]};
  return choice;
}

/// weight x (+ bias), with the weights that dequantize_row() gives.
inline std::vector<double> reference_product(const Matrix& weight, const float* bias,
                                             const std::vector<double>& x) {
  std::vector<double> out;
  std::vector<float> row(static_cast<size_t>(weight.n_cols));
  for (int64_t r = 0; r < weight.n_rows; ++r) {
    dequantize_row(weight.dtype, weight.row(r), weight.n_cols, row.data());
    double dot = bias == nullptr ? 0.0 : double{bias[r]};
    for (size_t c = 0; c < row.size(); ++c) dot += double{row[c]} * x[c];
    out.push_back(dot);
  }
  return out;
}

/// One expert's output [d_model] for one token x [d_model].
inline std::vector<double> reference_expert(const Expert& expert, FfnActivation activation, const float* x) {
  const std::vector<double> input(x, x + expert.up.n_cols);
  std::vector<double> hidden = reference_product(expert.up, expert.up_bias, input);
  if (expert.gate) {
    const std::vector<double> gates = reference_product(expert.gate, expert.gate_bias, input);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = reference_gated(activation, gates[i], hidden[i]);
  } else {
    for (double& value : hidden) value = reference_activation(activation, value);
  }
  return reference_product(expert.down, expert.down_bias, hidden);
}

}  // namespace hearth::testing
