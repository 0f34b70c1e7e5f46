// Looks for scales that are not finite in the tensors that sparse FFNs read.
//
// A dense product with such a scale gives only NaN, which every user notices. In a predictor it activates the
// wrong neurons, and a skipped neuron hides its bad scale: wrong answers that look right. So models with
// neurons that can be zero, including all of PowerInfer's, are checked at load.
#pragma once

#include <cstddef>

#include "engine/model/model_file.h"

namespace hearth {

/// Limit of bytes read per tensor: larger tensors are sampled in evenly spaced rows.
inline constexpr size_t kScaleCheckBytes = size_t{64} << 20;

/// Throws ModelFileError if a weight block of an FFN matrix or a predictor has a scale (or min), or a plain
/// weight, that is not finite. bytes_per_tensor: see kScaleCheckBytes; at least one row is read.
void check_scales(const ModelFile& file, size_t bytes_per_tensor = kScaleCheckBytes);

}  // namespace hearth
