// The sum over a layer's neurons as integers, which several devices and kernels add to in any order with one
// result.
//
// Why: some neurons are summed on the GPU and the others on the CPU, and which is which changes with timing.
// Sums of floats would differ in their last bits from run to run; sums of integers do not. A neuron's
// contribution value * w (w its down weight as dequantize_row gives it, the product rounded once) is bounded
// to +-2^20 and rounded to a multiple of 2^-36, ties to even. So the sum is as fine as a float's last bit at
// 2^-13, and 127 contributions at the bound fit. A product that is not a number counts as 2^20,
// but a value of zero adds nothing, whatever the weight.
#pragma once

#include <cstdint>

namespace hearth {

struct NeuronSums {
  int64_t* sums = nullptr;    // [n_tokens, n_cols] in units of 2^-36
  int32_t* poison = nullptr;  // [n_tokens] set where a value is not finite: the sum is then not a number
};

inline constexpr float kContributionBound = 0x1p20f;
inline constexpr float kUnitsOfOne = 0x1p36f;

/// What a neuron of this value, not zero, adds to the sum of one column: the definition, which vector code
/// follows. Inlined everywhere, for units of several instruction sets use it.
[[gnu::always_inline]] inline int64_t contribution(float value, float weight) {
  float product = value * weight;
  product = product < kContributionBound ? product : kContributionBound;
  product = product > -kContributionBound ? product : -kContributionBound;
  return __builtin_llrintf(product * kUnitsOfOne);
}

}  // namespace hearth
