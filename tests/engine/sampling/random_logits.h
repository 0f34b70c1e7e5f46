// Random rows of logits for tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace hearth::testing {

/// Returns n normally distributed logits with the standard deviation `spread`; equal seeds give equal logits.
inline std::vector<float> random_logits(size_t n, uint64_t seed, float spread) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

}  // namespace hearth::testing
