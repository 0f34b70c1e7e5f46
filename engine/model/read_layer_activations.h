// Reads the numbers of activations that differ between layers: those of xIELU (Activation::kXielu), and the
// limits of clamped SwiGLUs (Architecture::clamps_swiglu). Used by read_model_spec().
#pragma once

#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// Sets LayerSpec::ffn_activation and expert_activation of the layers that have numbers of their own. A key
/// may hold one number for all layers, or one for each of n_blocks layers. Throws ModelFileError if a number
/// is missing or out of range. REQUIRES: spec.activation and spec.layers are set.
void read_layer_activations(const SpecKeys& keys, int n_blocks, ModelSpec& spec);

}  // namespace hearth
