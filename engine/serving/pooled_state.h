// Collects the hidden states of a sequence, step by step, and makes its embedding of them.
//
// Each Sequence that is embedded has one. Engine thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

class PooledState {
 public:
  explicit PooledState(int d_model) : sums_(static_cast<size_t>(d_model), 0.0) {}

  /// Adds rows [n, d_model] of the tokens that are pooled, in the order of the tokens. Each row is added on its own, so
  /// that the sums do not depend on how the rows were shared out among steps.
  void add(std::span<const float> rows);

  /// [d_model]: the mean of the rows, scaled to length 1. (The sum has the mean's direction, so nothing is divided by
  /// their number.) Zeros stay zeros. nullopt if a value is a NaN or an infinity.
  std::optional<std::vector<float>> unit_vector() const;

 private:
  std::vector<double> sums_;  // [d_model]
};

}  // namespace hearth
