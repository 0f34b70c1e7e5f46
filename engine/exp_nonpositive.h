// exp for the weights of a softmax, whose exponents are never positive.
//
// Written so that the compiler can compute several at once: std::exp, one by one, was most of the time of a
// sample. Used by log-probabilities and the sampler; a pure function.
#pragma once

#include <bit>
#include <cstdint>
#include <numbers>

namespace hearth {

/// exp(x) for x <= 0, -infinity included, to within 2 units of the last place; 0 below -700. REQUIRES: not
/// NaN.
inline double exp_nonpositive(double x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n exp(r) (Cody and Waite 1980). ln 2 in two parts, the
  // first with so few bits that n times it is exact. exp(r) by its Taylor polynomial: at degree 13 the rest
  // is below 1e-17.
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound =
      6755399441055744.0;  // 1.5 * 2^52: adding it leaves the rounded integer in the low bits
  const double clamped = x < -700.0 ? -700.0 : x;  // 2^n must stay a normal number
  const double shifted = clamped * std::numbers::log2e + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return x < -700.0 ? 0.0 : p * std::bit_cast<double>(exponent);
}

}  // namespace hearth
