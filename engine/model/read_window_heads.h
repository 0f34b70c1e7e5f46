// Reads the keys of architectures whose layers with a window have heads of another size than the other layers
// (Architecture::window_heads). Used by read_model_spec().
#pragma once

#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// Returns the number of key and value heads in the layer that has the most of them. The key may hold one
/// number for all layers, or one for each of n_blocks layers. Throws ModelFileError if a layer's number does
/// not divide the number of heads.
int read_most_kv_heads(const SpecKeys& keys, const ModelSpec& spec, int n_blocks);

/// Returns the size of the heads of layers with a window.
int read_window_head_dim(const SpecKeys& keys, int n_heads);

/// Returns the width of the widest FFN. The key may hold one width for all layers, or one for each of
/// n_blocks layers.
int read_widest_ffn(const SpecKeys& keys, const ModelSpec& spec, int n_blocks);

/// Sets the layers whose keys and values the last layers read. REQUIRES: as read_window_heads(), and the
/// layers' heads are set.
void read_shared_kv(const SpecKeys& keys, ModelSpec& spec);

/// Sets the heads and the FFN's width of each layer, and the layers whose keys and values the last layers
/// read. Throws ModelFileError if a layer's heads do not fit, or if a layer has no earlier layer to read
/// from. REQUIRES: all other members of spec.layers are set.
void read_window_heads(const SpecKeys& keys, int n_blocks, ModelSpec& spec);

}  // namespace hearth
