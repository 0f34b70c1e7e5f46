// Frequencies of rotary embeddings, computed in double and rounded to float once.
#include "engine/forward/rope.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace hearth {
namespace {

/// The (fractional) index of the dimension pair that rotates `rotations` times over the original context.
double pair_of_rotations(const RopeSpec& rope, double rotations) {
  return rope.n_rot * std::log(rope.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

/// The share of a pair's frequency that YaRN keeps: 1 for fast rotations (unchanged), 0 for slow rotations
/// (interpolated), and a linear ramp between them.
double yarn_kept_share(const RopeSpec& rope, int pair) {
  double low = pair_of_rotations(rope, rope.beta_fast), high = pair_of_rotations(rope, rope.beta_slow);
  if (rope.yarn_rounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(0.0, low);
  high = std::min(rope.n_rot - 1.0, high);
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& rope, std::span<const float> divisors) {
  const int n_pairs = rope.n_rot / 2;
  assert(divisors.empty() || static_cast<int>(divisors.size()) == n_pairs);
  RopeFrequencies result;
  result.inv_freq.reserve(static_cast<size_t>(n_pairs));
  for (int pair = 0; pair < n_pairs; ++pair) {
    double freq = std::pow(rope.base, -2.0 * pair / rope.n_rot);
    if (!divisors.empty()) freq /= divisors[static_cast<size_t>(pair)];
    if (rope.scaling == RopeScaling::kLinear) freq /= rope.factor;
    if (rope.scaling == RopeScaling::kYarn) {
      const double kept = yarn_kept_share(rope, pair);
      freq = freq * kept + freq / rope.factor * (1.0 - kept);
    }
    result.inv_freq.push_back(static_cast<float>(freq));
  }
  // The temperature of the YaRN paper, sqrt(1/t) = 0.1 ln(s) + 1, where s is rope.factor. It is applied to
  // both q and k through the magnitude of cos and sin.
  const bool tempered = rope.scaling == RopeScaling::kYarn && rope.factor > 1.0 && rope.yarn_tempers;
  const double temperature = tempered ? 0.1 * std::log(rope.factor) + 1.0 : 1.0;
  result.magnitude = static_cast<float>(rope.attn_factor * temperature);
  return result;
}

}  // namespace hearth
