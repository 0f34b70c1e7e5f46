// The model of --draft-model, which drafts tokens for the served model (engine/generation/draft_model.h).
//
// The draft model runs on the CPU, on the engine's thread, alternating with the served model. It uses as many
// threads as the served model, and has its own KV cache for every slot. Its file is opened before the port is
// bound; the load thread loads it before the served model.
#pragma once

#include <functional>
#include <memory>

#include "config/options.h"
#include "engine/model/model_file.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Opens the draft model and checks that it has the vocabulary of the served model and no recurrent layers.
/// Returns null without --draft-model. Throws StartError.
std::shared_ptr<const ModelFile> open_draft_model(const Options& options, const ModelFile& model);

/// Loads the draft model with the context of the served model, or with the draft model's training context if
/// that is shorter. Throws StartError, std::bad_alloc, or an exception of `progress`.
std::unique_ptr<ModelRuntime> load_draft_model(std::shared_ptr<const ModelFile> file, const ModelFile& model,
                                               const Options& options, std::function<void(double)> progress);

}  // namespace hearth
