// Predictors in a separate file beside the model, for models without predictors or with worse ones.
//
// hearth-profiler train-predictors writes the file; ModelRuntime reads it at load if the mode uses
// predictors. A GGUF container with tensor names as in PowerInfer's files: blk.N.fc1.weight,
// blk.N.fc2.weight.
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

/// Opens the file beside the model and changes `spec` to a model with these predictors, which propose neurons
/// with logits from 0 on. nullopt: there is no file. Throws ModelFileError (one sentence) if it is damaged or
/// belongs to another model.
std::optional<ModelFile> open_predictor_file(const ModelFile& model, ModelSpec& spec);

/// Adds the keys that identify the predictors' model. The caller writes the tensors.
void add_predictor_keys(gguf::Writer& writer, const ModelFile& model, const ModelSpec& spec);

/// Binds the predictors of `file` to the weights. `file` must outlive them. Throws ModelFileError.
void bind_predictors(const ModelFile& file, const ModelSpec& spec, Weights& weights);

}  // namespace hearth
