// See the header.
#include "engine/serving/pooled_state.h"

#include <cassert>
#include <cmath>

namespace hearth {

void PooledState::add(std::span<const float> rows) {
  assert(rows.size() % sums_.size() == 0);
  for (size_t begin = 0; begin < rows.size(); begin += sums_.size()) {
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += rows[begin + i];
    ++n_rows_;
  }
}

std::optional<std::vector<float>> PooledState::mean() const {
  std::vector<float> mean(sums_.size());
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (!std::isfinite(sums_[i])) return std::nullopt;
    mean[i] = static_cast<float>(sums_[i] / static_cast<double>(n_rows_));
  }
  return mean;
}

std::optional<std::vector<float>> PooledState::unit_vector() const {
  // A double cannot overflow here, even if the squares of floats are summed over a whole context.
  double squares = 0;
  for (const double sum : sums_) squares += sum * sum;
  if (!std::isfinite(squares)) return std::nullopt;
  const double length = std::sqrt(squares);
  std::vector<float> unit(sums_.size());
  for (size_t i = 0; i < sums_.size() && length > 0; ++i) unit[i] = static_cast<float>(sums_[i] / length);
  return unit;
}

}  // namespace hearth
