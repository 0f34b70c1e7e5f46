// Sampling parameters that a model's authors recommend. They are the defaults of requests that set none.
//
// A file may contain them (general.sampling.*, which `hearth-profiler convert` writes from the checkpoint's
// generation_config.json). For files of well-known families without these keys, a table has the values of the
// family's generation_config.json or model card. Pure function.
#pragma once

#include <optional>

#include "engine/sampling/sampling_params.h"
#include "server/json/json.h"

namespace hearth {

/// keys: the file's metadata, as in ModelFileFacts. Values of a wrong type or out of range are ignored.
/// Returns nullopt for a model without recommendations.
std::optional<SamplingParams> model_sampling(const Json& keys);

}  // namespace hearth
