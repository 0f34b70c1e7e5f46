// Layers of experts with random weights, and steps of tokens with chosen experts: the inputs for the tests of
// experts.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <list>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/quant/coded_columns.h"
#include "tests/kernels/weight_rows.h"

namespace hearth::test {

inline constexpr int64_t kModel = 256;   // d_model; weight blocks of K-quants have 256 columns
inline constexpr int64_t kExpert = 512;  // d_expert
inline constexpr int kExperts = 9;
inline constexpr int kMaxTokens = 200;
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::vector<float> normal_numbers(int64_t n, std::mt19937& rng, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(rng);
  return out;
}

inline StepBounds bounds_for(int max_tokens, int n_experts, int n_used, int64_t d_model = kModel) {
  StepBounds bounds;
  bounds.max_tokens = max_tokens;
  bounds.max_cols = std::max(d_model, kExpert);
  bounds.d_model = d_model;
  bounds.n_experts = n_experts;
  bounds.n_experts_used = n_used;
  bounds.expert_cols = kExpert;
  return bounds;
}

struct LayerKind {
  DType inputs, down;
  bool gated, biased;
  Activation activation;
  int64_t d_model = kModel, d_expert = kExpert;
};

/// A layer of experts with random weights; gate and up are the halves of one tensor. Activations of about
/// unit size have products of about unit size.
class Layer {
 public:
  /// gate_shift is added to the biases of gates, or of ups if there are none, and decides how many neurons
  /// are active.
  explicit Layer(const LayerKind& kind, float gate_shift = 0.0f) : kind_(kind) {
    std::mt19937 rng(7);
    const int64_t d_model = kind.d_model, d_expert = kind.d_expert;
    for (int e = 0; e < kExperts; ++e) {
      inputs_.push_back(random_matrix(kind.inputs, kind.gated ? 2 * d_expert : d_expert, d_model, rng));
      downs_.push_back(random_matrix(kind.down, d_model, d_expert, rng));
      biases_.push_back(normal_numbers(2 * d_expert + d_model, rng));
      for (int64_t i = 0; i < d_expert; ++i) {
        biases_.back()[static_cast<size_t>(kind.gated ? i : d_expert + i)] += gate_shift;
      }
      Expert expert;
      expert.up = inputs_.back().view;
      expert.up.n_rows = d_expert;
      if (kind.gated) {
        expert.gate = expert.up;
        expert.up.data = inputs_.back().view.row(d_expert);
      }
      expert.down = downs_.back().view;
      if (kind.biased) {
        if (kind.gated) expert.gate_bias = biases_.back().data();
        expert.up_bias = biases_.back().data() + d_expert;
        expert.down_bias = biases_.back().data() + 2 * d_expert;
      }
      experts_.push_back(expert);
    }
  }
  /// Adds coded down columns to the experts, so that zeros are skipped.
  void turn() {
    for (Expert& expert : experts_) {
      std::vector<std::byte>& columns = turned_.emplace_back(packed_columns_bytes(expert.down));
      pack_columns(expert.down, columns.data());
      expert.down_columns = packed_columns(expert.down, columns.data());
    }
  }
  FfnActivation activation() const { return {kind_.activation}; }
  std::vector<Expert>& experts() { return experts_; }
  const std::vector<Expert>& experts() const { return experts_; }

 private:
  LayerKind kind_;
  std::vector<OwnedMatrix> inputs_, downs_;
  std::vector<std::vector<float>> biases_;
  std::list<std::vector<std::byte>> turned_;
  std::vector<Expert> experts_;
};

/// Tokens and their chosen experts.
struct Step {
  Step(int tokens, int used, std::mt19937& rng, int64_t model = kModel)
      : n_tokens(tokens), n_used(used), d_model(model) {
    x = normal_numbers(n_tokens * d_model, rng, 0.3f);
    std::vector<int32_t> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    for (int t = 0; t < n_tokens; ++t) {
      std::shuffle(all.begin(), all.end(), rng);
      // Two tokens in three choose the last expert, so that experts have unequal numbers of tokens.
      if (t % 3 != 0) std::iter_swap(std::ranges::find(all, kExperts - 1), all.begin() + t % n_used);
      experts.insert(experts.end(), all.begin(), all.begin() + n_used);
    }
    std::uniform_real_distribution<float> uniform(0.05f, 1.0f);
    for (size_t i = 0; i < experts.size(); ++i) weights.push_back(uniform(rng));
    before = normal_numbers(n_tokens * d_model, rng);
  }
  ExpertChoice choice() const { return {n_tokens, n_used, experts.data(), weights.data()}; }

  /// Returns a step with the tokens listed in `which`, in that order.
  Step select(const std::vector<int>& which) const {
    Step step = *this;
    step.n_tokens = static_cast<int>(which.size());
    step.x.clear();
    step.before.clear();
    step.experts.clear();
    step.weights.clear();
    for (const int t : which) {
      step.x.insert(step.x.end(), x.begin() + t * d_model, x.begin() + (t + 1) * d_model);
      step.before.insert(step.before.end(), before.begin() + t * d_model, before.begin() + (t + 1) * d_model);
      step.experts.insert(step.experts.end(), experts.begin() + t * n_used,
                          experts.begin() + (t + 1) * n_used);
      step.weights.insert(step.weights.end(), weights.begin() + t * n_used,
                          weights.begin() + (t + 1) * n_used);
    }
    return step;
  }

  int n_tokens, n_used;
  int64_t d_model;
  std::vector<float> x, weights, before;
  std::vector<int32_t> experts;
};

/// Returns whether two rows of outputs have the same bits.
inline bool same_row(const std::vector<float>& a, int64_t row_a, const std::vector<float>& b, int64_t row_b,
                     int64_t d_model = kModel) {
  return std::memcmp(a.data() + row_a * d_model, b.data() + row_b * d_model,
                     static_cast<size_t>(d_model) * sizeof(float)) == 0;
}

}  // namespace hearth::test
