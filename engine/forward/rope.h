// Rotary position embedding: converts a model's RopeSpec to the frequencies by which backends rotate q and k.
//
// Computed once at load. RoPE: Su et al. 2021 (arXiv 2104.09864). YaRN: Peng et al. 2023 (arXiv 2309.00071),
// section 3.
#pragma once

#include <span>
#include <vector>

#include "engine/model/model_spec.h"

namespace hearth {

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [n_rot / 2], radians per position, including scaling
  float magnitude = 1.0f;       // multiplies cos and sin
};

/// divisors: [n_rot / 2] from rope_freqs.weight of Llama-3 files, or empty.
RopeFrequencies rope_frequencies(const RopeSpec& rope, std::span<const float> divisors);

}  // namespace hearth
