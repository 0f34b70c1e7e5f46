// Lists the tensors of hybrid models, whose layers are of several kinds: gated delta nets or Mamba-2 beside
// full attention, or attention with a window beside full attention with other heads.
//
// The lists have the names, shapes and float types that converters write. synth_hybrid.cpp makes the tensors,
// and synth_sizes() counts them. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/synthesis/shapes.h"

namespace hearth {

/// The values of a tensor.
enum class TensorFill : uint8_t {
  kRandom,    // normally distributed
  kConstant,  // a float vector of equal values
  kTaps,      // normally distributed floats
  kDecays,    // floats: the logarithms of what a state loses, from -1 to -16
  kSteps,     // floats whose softplus is a time step from 0.001 to 0.1
  kRouter,    // floats: a planted router (planted_routing.h)
  kGates,     // planted gates of experts
  kTurned,    // floats: 1 for the pairs of dimensions that turn, 1e30 for the others
};

struct LayerTensor {
  std::string name;            // for a tensor of a layer, the part after "blk.N."
  std::vector<int64_t> shape;  // GGUF's order
  TensorFill fill = TensorFill::kRandom;
  double value =
      1;  // the deviation of random values, or the constant; kTurned: the number of pairs that turn

  /// Returns whether the tensor has the model's type. All others are floats.
  bool is_matrix() const { return fill == TensorFill::kRandom || fill == TensorFill::kGates; }
  int64_t n_elements() const;
};

/// The kind of a layer. Layers of one kind have tensors of equal names and shapes.
struct LayerKind {
  bool recurrent = false, attends = false, full = false, own_kv = true, has_ffn = true;
  bool operator==(const LayerKind&) const = default;
};
LayerKind layer_kind(const ModelShape& shape, int layer);
/// Returns the kinds that occur, in the order of their first layers.
std::vector<LayerKind> layer_kinds(const ModelShape& shape);

/// active: the mean share of an expert's neurons that fire, in models with planted activity.
std::vector<LayerTensor> layer_tensors(const ModelShape& shape, const LayerKind& kind, double active);
/// Returns the tensors before and after those of the layers, without the embedding and the output matrix.
std::vector<LayerTensor> tensors_before(const ModelShape& shape);
std::vector<LayerTensor> tensors_after(const ModelShape& shape);

}  // namespace hearth
