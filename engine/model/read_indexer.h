// Reads the sizes of a model's indexer, and which layers have one (Architecture::indexer_rope). Used by
// read_model_spec().
#pragma once

#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// Sets ModelSpec::indexer and LayerSpec::indexes. In files without an indexer's tensors, the context is
/// limited to what an indexer would choose. n_blocks includes the layers that are not run. Throws
/// ModelFileError if a key is missing or out of range. REQUIRES: spec.rope, spec.layers and
/// spec.context_train are set.
void read_indexer(const SpecKeys& keys, int n_blocks, ModelSpec& spec);

}  // namespace hearth
