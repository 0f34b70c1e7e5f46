// Computes contributions of quantized down rows to integer sums group by group.
//
// kernels/neuron_sums.h rounds each weight's contribution separately. For quantized rows (not for coded
// columns or floats), the value is first multiplied by the scale, once for each group of columns that share
// the scale, and rounded to an integer, the term t. Likewise, t2 is the term of the min:
//
//   t = rint(value * 2^k * scale)     t2 = rint(value * 2^k * min), 0 for types without mins
//   column c of the group gets (t * q_c + t2) * 2^(36 - k), in units of 2^-36
//
// q_c is the code of column c as a signed integer. scale and min are the group's factors as float32
// (kernels/quant/decode.h). value * 2^k and its products are float32, each rounded once. rint rounds ties to
// even. So sums of t * q are exact integers in any order, and byte and 16-bit instructions can add them up. k
// depends on the type's largest |q|, and is chosen such that |t| < 2^30 if |value * scale| times this largest
// |q| is below 4. If |t| or |t2| would be 2^30 or more, or NaN, contribution() of each weight of the group is
// added instead. This choice depends only on the value and the group, so a sum does not depend on which
// device adds which neurons.
//
// Errors: rint changes t by at most 1/2, and so a weight's contribution by at most 2^-k * |q| / 2, which is
// at most 2^-29. For comparison, a float sum of numbers around 1 has an error of up to 2^-25 in each
// addition. Range: a column's contribution is less than 2^30 * (2^(k - 28) + 1) * 2^(36 - k) < 2^39 units, so
// 63 bits can hold the sum over 2^24 neurons.
//
// Summation: t is split into two parts, t = 2^15 * high + low with 0 <= low < 2^15. So 32 bits can hold the
// sums of high * q and of low * q over kMost neurons, which are at most 2^15 * 2^7 * kMost = 2^30.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/quant/decode.h"
#include "kernels/quant/formats.h"

namespace hearth {

/// Whether contributions of rows of this type are summed by terms: true for the types that a device supports.
template <class Block>
inline constexpr bool kHasTerms = !kDecodedFirst<Block> && Block::kElems % Block::kGroup == 0 &&
                                  (Block::kGroup == 32 || Block::kGroup == 16);

struct Terms {
  static constexpr int kSumExponent = 36;   // sums are in units of 2^-36
  static constexpr float kLimit = 0x1p30f;  // |term| must be smaller
  static constexpr int kLowBits = 15;       // bits of a term's low part
  static constexpr int kMost = 256;         // neurons whose parts may be added up in 32 bits
  static constexpr int32_t kLowMask = (1 << kLowBits) - 1;

  /// Returns k for a type whose largest |q| is `largest`.
  static constexpr int exponent_of(int largest) {
    int bits = 0;
    while ((largest - 1) >> bits != 0) ++bits;
    return 28 + bits;
  }
  static constexpr float power_of_two(int exponent) {
    float power = 1;
    for (int i = 0; i < exponent; ++i) power *= 2;
    return power;
  }
};

/// For one type: k, 2^k, and 36 - k.
template <class Block>
struct TermsOf {
  static constexpr int kOffset = Block::kOffset, kRest = Block::kLargest - Block::kOffset;
  static constexpr int kExponent = Terms::exponent_of(kOffset > kRest ? kOffset : kRest);
  static constexpr float kPower = Terms::power_of_two(kExponent);
  static constexpr int kShift = Terms::kSumExponent - kExponent;
};

inline bool has_terms(DType type) {
  bool has = false;
  visit_block_type(type, [&]<class Block>() { has = kHasTerms<Block>; });
  return has;
}

}  // namespace hearth
