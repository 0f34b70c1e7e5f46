// Looks for scales that are not finite in the tensors that sparse FFNs read.
//
// A dense product with such a scale gives answers of nothing but NaN, which every user notices. A predictor
// with one proposes wrong neurons, and a skipped neuron hides its own: wrong answers that look right. So models
// whose neurons can be zero, all of PowerInfer's among them, are looked through when they are loaded.
#pragma once

#include <cstddef>

#include "engine/model/model_file.h"

namespace hearth {

/// Of one tensor at most so many bytes are read: larger ones are sampled in rows that lie evenly apart.
inline constexpr size_t kScaleCheckBytes = size_t{64} << 20;

/// Throws ModelFileError if a block of an FFN matrix or of a predictor has a scale (or min), or a plain
/// weight, that is not finite. bytes_per_tensor: see kScaleCheckBytes; at least one row is read.
void check_scales(const ModelFile& file, size_t bytes_per_tensor = kScaleCheckBytes);

}  // namespace hearth
