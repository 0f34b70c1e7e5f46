// PowerInfer's predictors as its repositories have them: a folder of model_0.pt, model_1.pt, ..., for each layer a state dict
// of fc1.weight [rank, d_model] and fc2.weight [d_ff, rank].
//
// hearth-profiler join-predictors writes them into a model. Layers are taken by the number in the name. Bytes are not trusted.
#pragma once

#include <filesystem>

#include "engine/model/model_spec.h"
#include "profiler/predictors/predictor_writer.h"

namespace hearth {

/// Checks the files of all layers, and returns a source that reads a layer when it is asked for one. The threshold is
/// sparse_threshold of the folder's config.json, 0 without it. Throws std::runtime_error (one sentence), also from the source:
/// no such folder, a layer missing or too many, a file that read_torch_state refuses, or sizes that are not the model's.
/// `spec` must outlive the source.
PredictorSource import_predictors(const std::filesystem::path& folder, const ModelSpec& spec);

}  // namespace hearth
