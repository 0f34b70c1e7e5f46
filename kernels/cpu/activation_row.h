// The memory layout of one activation row quantised to int8: planes of quants, scales and sums.
//
// Why planes: the matmul loops broadcast single values of a plane, and read only those their weight type
// needs. Groups of 32 columns share a scale; sums are kept for groups of 32 and of 16, as K-quants have both.
// Sums are stored negated: shifted left by the bits of a weight type's offset they are what an integer
// accumulator starts from.
//
// Everything here has internal linkage on purpose: the file is included by units compiled for different ISAs,
// and an ordinary inline function could leave an AVX-512 copy to be linked into code that runs on any
// machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth {
namespace {

inline constexpr int kActivationGroup = 32;

/// Pointers to the planes of one row.
struct ActivationRow {
  int8_t* quants;           // [n_cols], in [-127, 127]
  float* scale;             // [n_cols / 32]
  float* scaled_sum;        // [n_cols / 32]  scale * sum of quants
  int32_t* minus_sum;       // [n_cols / 32]  -(sum of quants)
  float* half_scaled_sum;   // [n_cols / 16]  as scaled_sum, for groups of 16
  int32_t* half_minus_sum;  // [n_cols / 16]  as minus_sum, for groups of 16
};

/// Per 32 columns: 32 quants, scale, two sums of the whole and two of each half. Rounded up to whole cache
/// lines.
[[maybe_unused]] size_t activation_row_size(int64_t n_cols) {
  const size_t groups = static_cast<size_t>(n_cols / kActivationGroup);
  const size_t lines = (groups * (32 + 4 + 4 + 4 + 8 + 8) + 63) / 64;
  return (lines | 1) * 64;
}

[[maybe_unused]] ActivationRow activation_row(std::byte* row, int64_t n_cols) {
  const size_t groups = static_cast<size_t>(n_cols / kActivationGroup);
  std::byte* scale = row + groups * 32;
  std::byte* scaled_sum = scale + groups * 4;
  std::byte* minus_sum = scaled_sum + groups * 4;
  std::byte* half_scaled_sum = minus_sum + groups * 4;
  std::byte* half_minus_sum = half_scaled_sum + groups * 8;
  return {reinterpret_cast<int8_t*>(row),
          reinterpret_cast<float*>(scale),
          reinterpret_cast<float*>(scaled_sum),
          reinterpret_cast<int32_t*>(minus_sum),
          reinterpret_cast<float*>(half_scaled_sum),
          reinterpret_cast<int32_t*>(half_minus_sum)};
}

}  // namespace
}  // namespace hearth
