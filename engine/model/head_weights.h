// Binds the weights of a model's head. Called by bind_weights().
#pragma once

#include <vector>

#include "engine/model/binder.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

/// Returns the stages of the head that ranks pairs of texts or changes embeddings; empty if the model has
/// none. Throws as Binder does.
std::vector<HeadStage> bind_head(Binder& bind, const ModelSpec& spec);

}  // namespace hearth
