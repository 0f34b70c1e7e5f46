// Adds the keys that hold a stored number of each layer.
#pragma once

#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"
#include "profiler/convert/family.h"

namespace hearth::convert {

/// For each rule with Rearrange::kNumber, adds the key Rule::to: an array of one float per layer. Throws
/// std::runtime_error (one sentence) if a layer lacks its tensor, or the tensor is not a single number.
void add_layer_numbers(const Checkpoint& checkpoint, const Config& config, const Family& family,
                       KeyList& keys);

}  // namespace hearth::convert
