// Reads the keys of models whose recurrent layers are those of Mamba-2 (Architecture::recurrent), and of
// models in which arrays in the file state the kind of each layer. Called by read_model_spec().
#pragma once

#include <vector>

#include "engine/model/architecture.h"
#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// Reads the sizes of the recurrent layers. Throws ModelFileError if a key is absent, out of range, or
/// contradicts another key.
RecurrentShape read_mamba(const SpecKeys& keys);

/// The kinds of the layers that are run, as the file tells them.
struct LayerKinds {
  std::vector<bool> recurrent;  // Mamba-2 or a short convolution
  std::vector<bool> mixes;      // recurrent, or attention; false: an FFN alone
  std::vector<bool> has_ffn;
  int n_kv_heads = 0;  // of all layers with attention
  int d_ff = 0;        // of the dense FFNs of models in which a layer is one block; 0: there are none
};

/// Reads the kinds of n_layers layers; n_blocks also counts the layers that are not run. A layer without
/// key/value heads is recurrent. With Architecture::one_block, a layer with an FFN has nothing else. Throws
/// ModelFileError if an array is absent or wrong, or if no layer has attention or none has an FFN.
LayerKinds read_layer_kinds(const SpecKeys& keys, const Architecture& arch, int n_heads, bool experts,
                            int n_layers, int n_blocks);

}  // namespace hearth
