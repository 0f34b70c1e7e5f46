// Accumulates the hidden states of a sequence step by step and computes its embedding from them.
//
// Each embedded Sequence has one. Engine thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

class PooledState {
 public:
  explicit PooledState(int d_model) : sums_(static_cast<size_t>(d_model), 0.0) {}

  /// Adds rows [n, d_model]: the hidden states of the tokens to pool, in token order. Rows are added one by
  /// one, so the sums do not depend on how the rows were split into steps.
  void add(std::span<const float> rows);

  /// Returns the mean of the rows: [d_model]. Returns nullopt if a value is NaN or infinite. REQUIRES: rows
  /// were added.
  std::optional<std::vector<float>> mean() const;

  /// Returns the mean of the rows, scaled to length 1: [d_model]. (The sum has the same direction as the
  /// mean, so it is not divided by the number of rows.) A zero vector stays zero. Returns nullopt if a value
  /// is NaN or infinite.
  std::optional<std::vector<float>> unit_vector() const;

 private:
  std::vector<double> sums_;  // [d_model]
  size_t n_rows_ = 0;
};

}  // namespace hearth
