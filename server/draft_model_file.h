// The second model of --draft-model: it drafts tokens for the model that is served (engine/serving/draft_model.h).
//
// It runs on the CPU, on the engine's thread in turn with the model, with as many threads, and has keys and values of its
// own for every slot. Opened before the port is bound, loaded by hearthd's load thread before the model.
#pragma once

#include <functional>
#include <memory>

#include "config/options.h"
#include "engine/model/model_file.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Opens it and checks that its vocabulary is the model's; null without --draft-model. Throws StartError.
std::shared_ptr<const ModelFile> open_draft_model(const Options& options, const ModelFile& model);

/// Loads it, for the context that the model is going to have, or as much of it as this one was trained for. Throws StartError,
/// std::bad_alloc, and whatever `progress` throws.
std::unique_ptr<ModelRuntime> load_draft_model(std::shared_ptr<const ModelFile> file, const ModelFile& model,
                                               const Options& options, std::function<void(double)> progress);

}  // namespace hearth
