// Counts values in ranges between fixed bounds, and keeps their sum. Plain data; code that shares a histogram
// between threads must guard it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth {

class Histogram {
 public:
  static constexpr size_t kMostBounds = 20;

  /// bounds: ascending, at most kMostBounds, static storage. A value is counted in the range of the first
  /// bound that is not less than the value.
  explicit constexpr Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  void add(double value) {
    const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    ++counts_[static_cast<size_t>(at)];
    ++n_;
    sum_ += value;
  }

  std::span<const double> bounds() const { return bounds_; }
  /// [number of bounds + 1] Entry i counts values up to bound i and above bound i - 1; the last entry counts
  /// values above the last bound.
  std::span<const uint64_t> counts() const { return {counts_.data(), bounds_.size() + 1}; }
  uint64_t n() const { return n_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::array<uint64_t, kMostBounds + 1> counts_{};
  uint64_t n_ = 0;
  double sum_ = 0;
};

}  // namespace hearth
