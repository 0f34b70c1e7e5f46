// Reads PowerInfer's predictors as its repositories store them: a folder with one file for each layer,
// model_0.pt, model_1.pt, ... Each file is a state dict of fc1.weight [rank, d_model] and fc2.weight [d_ff,
// rank].
//
// hearth-profiler join-predictors writes them into a model. The number in a file's name is the layer. The
// files' bytes are not trusted.
#pragma once

#include <filesystem>

#include "engine/model/model_spec.h"
#include "profiler/predictors/predictor_writer.h"

namespace hearth {

/// Checks the files of all layers, and returns a source that reads each layer on demand. The threshold is
/// sparse_threshold in the folder's config.json, or 0 if there is none. This function and the source throw
/// std::runtime_error (one sentence) if the folder does not exist, there are too few or too many layers,
/// read_torch_state() refuses a file, or sizes differ from the model's. `spec` must outlive the source.
PredictorSource import_predictors(const std::filesystem::path& folder, const ModelSpec& spec);

}  // namespace hearth
