// Draws numbers with SplitMix64 (Steele, Lea, Flood 2014) and a table of the normal distribution's quantiles.
#include "profiler/synthesis/normal_stream.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace hearth {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
constexpr int kTableBits = 12;                  // 16 KiB of floats, which stay in the first-level cache
constexpr size_t kTableSize = size_t{1} << kTableBits;

uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Returns the x with P(normal <= x) = p, found by bisection.
double normal_quantile(double p) {
  double low = -10.0, high = 10.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::array<float, kTableSize> make_table() {
  std::array<float, kTableSize> table{};
  double square_sum = 0.0;
  for (size_t i = 0; i < kTableSize; ++i) {
    const double x = normal_quantile((static_cast<double>(i) + 0.5) / kTableSize);
    table[i] = static_cast<float>(x);
    square_sum += x * x;
  }
  // The table omits the tails, which reduces the variance; scale the values to restore it.
  const float scale = static_cast<float>(1.0 / std::sqrt(square_sum / kTableSize));
  for (float& value : table) value *= scale;
  return table;
}

}  // namespace

uint64_t mix_keys(uint64_t a, uint64_t b) { return scramble(scramble(a + kStep) ^ (b * kStep)); }

uint64_t NormalStream::bits() {
  state_ += kStep;
  return scramble(state_);
}

void NormalStream::fill(std::span<float> out, float deviation) {
  static const std::array<float, kTableSize> table = make_table();
  constexpr uint64_t kMask = kTableSize - 1;
  size_t i = 0;
  while (i < out.size()) {
    uint64_t word = bits();
    // One word gives five table indices. SplitMix64's low bits are as random as its high bits.
    for (int k = 0; k < 5 && i < out.size(); ++k, ++i, word >>= kTableBits) {
      out[i] = table[word & kMask] * deviation;
    }
  }
}

}  // namespace hearth
