// The weights of a softmax, exp((logit - max) / temperature), over rows as long as the vocabulary.
//
// std::exp is not used because calling it for each token took most of the sampling time: 1.1 ms for 152k
// tokens, against 0.25 ms with this code. Compilers vectorize this plain arithmetic. It gives the same bits
// with every compiler and C library, so a given seed always gives the same text. Used by log-probabilities
// and the sampler. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <span>

namespace hearth {

/// Returns exp(x) for x <= 0, including -infinity. The relative error is below 2e-7; the result is 0 for x
/// below -87.7. REQUIRES: not NaN.
inline float exp_nonpositive(float x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2, and exp(x) = 2^n exp(r) (Cody and Waite 1980). ln 2 is split into
  // two parts; the first has so few bits that its product with n is exact. exp(r) is computed by its Taylor
  // polynomial of degree 7, with an error below 6e-9.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  // Values below -88 are clamped to -88. There n is -127, so the exponent field is zero and the result is 0.
  // The clamp compares bit patterns, because compilers turn a float comparison into a branch. For numbers <=
  // 0, the bit pattern ascends as the number descends.
  constexpr uint32_t kClamp = std::bit_cast<uint32_t>(-88.0f);
  const float clamped = std::bit_cast<float>(std::min(std::bit_cast<uint32_t>(x), kClamp));
  const float shifted = clamped * std::numbers::log2e_v<float> + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

/// Returns the sum of a row of weights, in double.
inline double sum_of(std::span<const float> weights) {
  constexpr size_t kLanes = 8;  // independent sums, so that an addition need not wait for the previous one
  std::array<double, kLanes> sums{};
  const size_t n_whole = weights.size() / kLanes * kLanes;
  for (size_t i = 0; i < n_whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
  }
  for (size_t i = n_whole; i < weights.size(); ++i) sums[0] += static_cast<double>(weights[i]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// weights[i] = exp((logits[i] - max) / temperature). Returns the sum of the weights, in double. REQUIRES:
/// logits and weights have the same size; no NaN; max is the largest logit; temperature > 0.
inline double softmax_weights(std::span<const float> logits, float max, float temperature,
                              std::span<float> weights) {
  for (size_t i = 0; i < logits.size(); ++i) weights[i] = exp_nonpositive((logits[i] - max) / temperature);
  return sum_of(weights);
}

}  // namespace hearth
