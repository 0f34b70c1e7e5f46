// Reads PowerInfer's predictors in the form of its repositories: a folder with model_0.pt, model_1.pt, ...,
// one for each layer, each a state dict of fc1.weight [rank, d_model] and fc2.weight [d_ff, rank].
//
// hearth-profiler join-predictors writes them into a model. The number in a file's name is its layer. Bytes
// are not trusted.
#pragma once

#include <filesystem>

#include "engine/model/model_spec.h"
#include "profiler/predictors/predictor_writer.h"

namespace hearth {

/// Checks the files of all layers, and returns a source that reads each layer on demand. The threshold is
/// sparse_threshold in the folder's config.json, or 0 without it. This function and the source throw
/// std::runtime_error (one sentence) if there is no such folder, a layer is missing or surplus,
/// read_torch_state refuses a file, or sizes are not the model's. `spec` must outlive the source.
PredictorSource import_predictors(const std::filesystem::path& folder, const ModelSpec& spec);

}  // namespace hearth
