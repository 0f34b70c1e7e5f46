// Checks that all scales are finite in the tensors that sparse FFNs read.
//
// If a scale is infinite or NaN, a dense product gives only NaN, which every user notices. In a sparse FFN, a
// bad scale can give wrong answers that look right: in a predictor it activates the wrong neurons, and a
// skipped neuron hides its own bad scale. So loading checks all models whose neurons can be zero, including
// all PowerInfer models.
#pragma once

#include <cstddef>

#include "engine/model/model_file.h"

namespace hearth {

/// Maximum number of bytes read per tensor. In a larger tensor, only evenly spaced rows are checked.
inline constexpr size_t kScaleCheckBytes = size_t{64} << 20;

/// Throws ModelFileError if an FFN matrix or a predictor has a scale, a min or a plain weight that is not
/// finite. bytes_per_tensor: see kScaleCheckBytes; at least one row is read.
void check_scales(const ModelFile& file, size_t bytes_per_tensor = kScaleCheckBytes);

}  // namespace hearth
