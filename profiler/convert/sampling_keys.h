// The sampling parameters that a model's authors recommend, from generation_config.json.
#pragma once

#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"

namespace hearth::convert {

/// Adds general.sampling.* for the fields of generation_config.json that are numbers in range. Adds nothing
/// for the other fields, or if the checkpoint has no such file. server/api/model_sampling.h reads the keys.
void add_sampling_keys(const Checkpoint& checkpoint, KeyList& keys);

}  // namespace hearth::convert
