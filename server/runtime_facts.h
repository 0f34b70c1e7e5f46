// Derives facts from a loaded model: its engine's options, its description for the API, and its reserved
// memory. Used for the served model and the embedding model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "server/api/embedding_target.h"

namespace hearth {

/// Returns the options of the model's engine, except those for drafts. n_slots: as in the model's
/// LoadOptions.
EngineOptions engine_for(const ModelRuntime& runtime, int n_slots, int queue_capacity);

/// Returns the description of the model for the API. names: at least one. created: Unix seconds. The runtime
/// and the engine must outlive the result.
EmbeddingTarget target_of(const ModelRuntime& runtime, TokenGenerator& engine, std::vector<std::string> names,
                          int64_t created);

/// Returns the bytes of memory that were reserved at load: KV cache, scratch and neuron bundles, without the
/// pages of the model file.
uint64_t reserved_bytes(const ModelRuntime& runtime);

}  // namespace hearth
