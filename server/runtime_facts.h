// Derives facts from a loaded model: the options of its engine, its description for the API, and the memory
// that other models cannot use. Used for the served model and for the embedding model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "server/api/embedding_target.h"

namespace hearth {

/// The options of the engine that runs the model, except those for drafts. n_slots: as in the model's
/// LoadOptions.
EngineOptions engine_for(const ModelRuntime& runtime, int n_slots, int queue_capacity);

/// The model as the API shows it. names: at least one. created: Unix seconds. The runtime and the engine must
/// outlive it.
EmbeddingTarget target_of(const ModelRuntime& runtime, TokenGenerator& engine, std::vector<std::string> names,
                          int64_t created);

/// Bytes of memory reserved at load: KV cache, scratch and neuron bundles, but not the pages of the model
/// file.
uint64_t reserved_bytes(const ModelRuntime& runtime);

}  // namespace hearth
