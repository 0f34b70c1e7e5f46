// The memory layout of one activation row quantised to int8: planes of quants, scales and sums.
//
// Why planes: the matmul loops broadcast single values of a plane, and read only those their weight type
// needs. Why 16 columns to a scale: activations have outliers, and what an outlier costs is the precision of
// its group. Groups of 32 gave SmolLM2-135M (Q4_1) a mean KL of 0.0022 from its float32 reference and 95.0 %
// equal first choices; the halved group is also that of the K-quants' finest scales. Sums are stored negated:
// shifted left by the bits of a weight type's offset they are what an integer accumulator starts from.
//
// Everything here has internal linkage on purpose: the file is included by units compiled for different ISAs,
// and an ordinary inline function could leave an AVX-512 copy to be linked into code that runs on any
// machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth {
namespace {

inline constexpr int kActivationGroup = 16;

/// Groups whose largest magnitude is below this are zero: 127 / max and the scale stay ordinary floats.
inline constexpr float kSmallestMax = 2e-36f;

/// Pointers to the planes of one row.
struct ActivationRow {
  int8_t* quants;          // [n_cols], in [-127, 127]
  float* scale;            // [n_cols / 16]
  float* scaled_sum;       // [n_cols / 16]  scale * sum of quants
  int32_t* minus_sum;      // [n_cols / 16]  -(sum of quants)
  float* pair_scaled_sum;  // [n_cols / 32]  scaled_sum[2i] + scaled_sum[2i + 1], for weight groups of 32
};

/// Per 32 columns: 32 quants, two of scale, scaled_sum, minus_sum, one of pair_scaled_sum. Rounded up to an
/// odd number of cache lines, so that the same column of many tokens does not fall on few sets of a cache.
[[maybe_unused]] size_t activation_row_size(int64_t n_cols) {
  const size_t pairs = static_cast<size_t>(n_cols / 32);
  const size_t lines = (pairs * (32 + 8 + 8 + 8 + 4) + 63) / 64;
  return (lines | 1) * 64;
}

[[maybe_unused]] ActivationRow activation_row(std::byte* row, int64_t n_cols) {
  const size_t pairs = static_cast<size_t>(n_cols / 32);
  std::byte* scale = row + pairs * 32;
  std::byte* scaled_sum = scale + pairs * 8;
  std::byte* minus_sum = scaled_sum + pairs * 8;
  std::byte* pair_scaled_sum = minus_sum + pairs * 8;
  return {reinterpret_cast<int8_t*>(row), reinterpret_cast<float*>(scale),
          reinterpret_cast<float*>(scaled_sum), reinterpret_cast<int32_t*>(minus_sum),
          reinterpret_cast<float*>(pair_scaled_sum)};
}

}  // namespace
}  // namespace hearth
