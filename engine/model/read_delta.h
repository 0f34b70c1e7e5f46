// Reads the keys of models whose recurrent layers are gated delta nets (Architecture::recurrent).
// Called by read_model_spec().
#pragma once

#include <optional>
#include <vector>

#include "engine/model/architecture.h"
#include "engine/model/model_spec.h"
#include "engine/model/spec_keys.h"

namespace hearth {

/// Reads the keys that all recurrent layers with states have. Returns a shape with its taps and heads. Sets
/// state_size, whose meaning depends on the kind of layer. Throws ModelFileError if a key is absent, out of
/// range, or contradicts another one.
RecurrentShape read_state_heads(const SpecKeys& keys, int& state_size);

/// These functions read the sizes of the recurrent layers and the order of their heads: read_kda() for layers
/// with Architecture::row_decays, which have as many heads as attention, read_delta() for all others. Both
/// throw ModelFileError if a key is absent, out of range, or contradicts another key or the file's tensors.
RecurrentShape read_kda(const SpecKeys& keys, int n_heads);

RecurrentShape read_delta(const SpecKeys& keys, const Architecture& arch);

/// Returns for each of the n_layers layers that are run whether it is recurrent. n_blocks also counts the
/// layers that are not run. The array "attention.recurrent_layers" decides; files without it have a full
/// layer at the end of each interval. Throws ModelFileError if a key is wrong, or if all layers are
/// recurrent.
std::vector<bool> read_recurrent_layers(const SpecKeys& keys, int n_layers, int n_blocks);

/// Returns the number of key/value heads if the file has an array of them, with one number for each of
/// n_blocks layers; nullopt if it has a single number or none. `recurrent` is the result of
/// read_recurrent_layers(); the array must have 0 for these layers and equal numbers for the others.
std::optional<int> read_kv_heads_of_layers(const SpecKeys& keys, const std::vector<bool>& recurrent,
                                           int n_heads, int n_blocks);

/// Checks how the pairs of rotated dimensions are divided among the axes of positions (time, height and width
/// in images and video). In text, a token's positions on all axes are equal, so the sections have no effect.
void check_rope_sections(const SpecKeys& keys, int n_rot);

}  // namespace hearth
