// Looks for scales that are not finite in the tensors that sparse FFNs read.
//
// A dense product with such a scale gives nothing but NaN, which every user notices. In a predictor it makes
// wrong neurons active, and a skipped neuron hides a bad scale of its own: wrong answers that look right. So
// models whose neurons can be zero, all of PowerInfer's among them, are checked at load.
#pragma once

#include <cstddef>

#include "engine/model/model_file.h"

namespace hearth {

/// Bytes read of one tensor, at most: larger tensors are sampled in evenly spaced rows.
inline constexpr size_t kScaleCheckBytes = size_t{64} << 20;

/// Throws ModelFileError if a block of an FFN matrix or of a predictor has a scale (or min), or a plain
/// weight, that is not finite. bytes_per_tensor: see kScaleCheckBytes; at least one row is read.
void check_scales(const ModelFile& file, size_t bytes_per_tensor = kScaleCheckBytes);

}  // namespace hearth
