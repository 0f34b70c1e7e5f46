// The sum over a layer's neurons as integers, which several devices and kernels add to in any order with one
// result.
//
// Why: some neurons are summed on the GPU and the others on the CPU, and which is which changes with timing.
// Sums of floats would differ in their last bits from run to run; sums of integers do not. A neuron's
// contribution value * w (w its down weight as dequantize_row gives it) is rounded once, to a multiple of
// 2^-36, ties to even, and bounded to +-2^20. So the sum is as fine as a float's last bit at 2^-13, and 127
// contributions at the bound fit. A product that is not a number counts as 2^20, but a value of zero adds
// nothing, whatever the weight.
//
// Vector code and kernels do without wide integers. For |value * w| < 256 three operations on floats cut a
// contribution into two numbers of 32 bits:
//   high = fma(value, w, C)        C = 1.5 * 2^9: value * w in units of 2^-14, in the lowest bits of `high`
//   rest = (C + D) - high          exact; D = 1.5 * 2^-13
//   low = fma(value, w, rest)      value * w less those units, in units of 2^-36, in the lowest bits of `low`
// Each is added up as it lies, as an integer, and the bits of C and D are taken off once for all neurons.
// Other products show in the exponent of `high`, and go through contribution().
#pragma once

#include <cstdint>

namespace hearth {

struct NeuronSums {
  int64_t* sums = nullptr;    // [n_tokens, n_cols] in units of 2^-36
  int32_t* poison = nullptr;  // [n_tokens] set where a value is not finite: the sum is then not a number
};

/// What a neuron of this value, not zero, adds to the sum of one column: the definition. The product of two
/// floats is exact as a double. Inlined everywhere, for units of several instruction sets use it.
[[gnu::always_inline]] inline int64_t contribution(float value, float weight) {
  double product = double{value} * double{weight};
  product = product < 0x1p20 ? product : 0x1p20;
  product = product > -0x1p20 ? product : -0x1p20;
  return __builtin_llrint(product * 0x1p36);
}

/// The two parts of contributions.
struct SumParts {
  static constexpr float kHighShift = 0x1.8p9f;                // C
  static constexpr float kBothShifts = 0x1.8p9f + 0x1.8p-13f;  // C + D, a float
  static constexpr uint32_t kHighBits = 0x44400000;            // of C
  static constexpr uint32_t kLowBits = 0x39400000;             // of D
  static constexpr uint32_t kExponent = 0xff800000;  // and sign: that of C unless a product is too large
  /// Contributions whose parts fit: each is 2^22 at most.
  static constexpr int kMost = 256;

  /// Units of n contributions' parts, the bits summed up.
  [[gnu::always_inline]] static int64_t units(uint32_t high, uint32_t low, uint32_t n) {
    const auto highs = static_cast<int32_t>(high - n * kHighBits),
               lows = static_cast<int32_t>(low - n * kLowBits);
    return int64_t{highs} * (int64_t{1} << 22) + lows;
  }
};

}  // namespace hearth
