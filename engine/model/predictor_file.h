// Predictors in a file of their own beside the model, for models that came without, or with worse ones.
//
// hearth-profiler train-predictors writes it; ModelRuntime reads it at load where predictors are wanted. A
// GGUF container of tensors named as in PowerInfer's files: blk.N.fc1.weight, blk.N.fc2.weight.
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

/// The file beside the model, and `spec` as it is with those predictors: their logits propose from 0 on.
/// nullopt: there is none. Throws ModelFileError (one sentence): it is damaged or another model's.
std::optional<ModelFile> open_predictor_file(const ModelFile& model, ModelSpec& spec);

/// The keys by which a file says whose predictors it holds; its tensors are the caller's business.
void add_predictor_keys(gguf::Writer& writer, const ModelFile& model, const ModelSpec& spec);

/// weights' predictors = those of `file`, which must outlive them. Throws ModelFileError.
void bind_predictors(const ModelFile& file, const ModelSpec& spec, Weights& weights);

}  // namespace hearth
