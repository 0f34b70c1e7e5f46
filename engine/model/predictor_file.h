// Predictors in a separate file beside the model, for models whose own file has no predictors or worse
// predictors.
//
// hearth-profiler train-predictors writes the file; ModelRuntime reads it at load if the mode uses
// predictors. The file is a GGUF container. Its tensors have the names of PowerInfer's files:
// blk.N.fc1.weight, blk.N.fc2.weight.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/model/gguf/writer.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

/// "model.gguf" -> "model.gguf.predictors.gguf".
std::filesystem::path predictor_file_path(const std::filesystem::path& model);

/// Opens the file beside the model, and changes `spec` so that the model has these predictors and each
/// proposes a neuron if the neuron's logit is at least 0. Returns nullopt if there is no such file. Throws
/// ModelFileError with a one-sentence message if the file is damaged or belongs to another model.
std::optional<ModelFile> open_predictor_file(const ModelFile& model, ModelSpec& spec);

/// Adds the keys that identify the model for which the predictors were trained. The caller writes the
/// tensors.
void add_predictor_keys(gguf::Writer& writer, const ModelFile& model, const ModelSpec& spec);

/// Binds the predictors in `file` to the weights. `file` must outlive `weights`. Throws ModelFileError.
void bind_predictors(const ModelFile& file, const ModelSpec& spec, Weights& weights);

}  // namespace hearth
