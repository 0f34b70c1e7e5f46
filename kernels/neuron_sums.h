// The integer sum over a layer's neurons. Several devices and kernels may add to it in any order and get the
// same result.
//
// The split between the GPU's and the CPU's neurons changes with timing, so float sums would differ in their
// last bits from run to run. Integer sums do not. A neuron's contribution is value * w, where w is its down
// weight as dequantize_row() returns it. The contribution is rounded once, to a multiple of 2^-36 with ties
// to even, and clamped to +-2^20. So the sum is as fine as a float of magnitude 2^-13, and 64 bits can hold
// 127 contributions of the largest magnitude. A NaN product counts as 2^20. A value of zero adds nothing,
// even if the weight is infinite or NaN.
//
// Vector code and GPU kernels avoid 64-bit integers. If |value * w| < 256, three float operations split a
// contribution into two 32-bit numbers, `high` and `low`:
//   high = fma(value, w, C)        C = 1.5 * 2^9: value * w in units of 2^-14, in the lowest bits of `high`
//   rest = (C + D) - high          exact; D = 1.5 * 2^-13
//   low = fma(value, w, rest)      the remainder of value * w in units of 2^-36, in the lowest bits of `low`
// The bit patterns of all `high` are added up as integers, and likewise the bit patterns of all `low`. The
// bit patterns of C and D are subtracted once for all neurons. If |value * w| is too large, the exponents of
// `high` and C differ. contribution() then computes this product.
#pragma once

#include <cstdint>

namespace hearth {

struct NeuronSums {
  int64_t* sums = nullptr;    // [n_tokens, n_cols] in units of 2^-36
  int32_t* poison = nullptr;  // [n_tokens] not 0 if one of the token's values is not finite: its sum is then
                              // NaN
};

/// Returns what a neuron adds to the sum of one column. REQUIRES: value is not 0. This is the definition that
/// all other code must match. The product of two floats is exact in double. Always inlined, because files
/// compiled for different instruction sets call it.
[[gnu::always_inline]] inline int64_t contribution(float value, float weight) {
  double product = double{value} * double{weight};
  product = product < 0x1p20 ? product : 0x1p20;
  product = product > -0x1p20 ? product : -0x1p20;
  return __builtin_llrint(product * 0x1p36);
}

/// Splits contributions into two 32-bit parts, as described at the top of this file, and joins the parts
/// again.
struct SumParts {
  static constexpr float kHighShift = 0x1.8p9f;                // C
  static constexpr float kBothShifts = 0x1.8p9f + 0x1.8p-13f;  // C + D, a float
  static constexpr uint32_t kHighBits = 0x44400000;            // the bits of C
  static constexpr uint32_t kLowBits = 0x39400000;             // the bits of D
  static constexpr uint32_t kExponent = 0xff800000;  // mask of sign and exponent, which equal C's unless
                                                     // a product is too large
  /// The maximum number of contributions whose parts may be added up without overflow: each part is at most
  /// 2^22.
  static constexpr int kMost = 256;

  /// Computes the sum of n contributions in units of 2^-36. high: the sum of the bit patterns of their high
  /// parts. low: the sum of the bit patterns of their low parts.
  [[gnu::always_inline]] static int64_t units(uint32_t high, uint32_t low, uint32_t n) {
    const auto highs = static_cast<int32_t>(high - n * kHighBits),
               lows = static_cast<int32_t>(low - n * kLowBits);
    return int64_t{highs} * (int64_t{1} << 22) + lows;
  }
};

}  // namespace hearth
