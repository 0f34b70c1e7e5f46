// Rotary position embedding: converts a model's RopeSpec to the frequencies with which backends rotate.
//
// Computed once at load. RoPE: Su et al. 2021 (arXiv 2104.09864). YaRN: Peng et al. 2023 (arXiv 2309.00071),
// section 3.
#pragma once

#include <span>
#include <vector>

#include "engine/model/model_spec.h"

namespace hearth {

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [n_rot / 2], radians per position, scaling included
  float magnitude = 1.0f;       // multiplies cos and sin
};

/// divisors: rope_freqs.weight of Llama-3 files, [n_rot / 2], or empty.
RopeFrequencies rope_frequencies(const RopeSpec& rope, std::span<const float> divisors);

}  // namespace hearth
