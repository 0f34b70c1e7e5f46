// Reads how many heads each layer has, for architectures whose layers differ in that
// (Architecture::heads_of_layers). Used by read_model_spec().
#pragma once

#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// The numbers of each layer's heads of queries, and of keys and values.
struct LayerHeads {
  std::vector<int> queries, keys;  // [n_layers]
};

/// Each of the keys may hold one number for all layers, or one for each of n_blocks layers. Throws
/// ModelFileError if a number is out of range, or if a layer's heads of keys do not divide those of queries.
LayerHeads read_layer_heads(const SpecKeys& keys, int n_layers, int n_blocks);

/// Sets the heads of spec.layers. REQUIRES: `heads` has as many layers, and spec.n_heads and spec.n_kv_heads
/// are set.
void set_layer_heads(const LayerHeads& heads, ModelSpec& spec);

}  // namespace hearth
