// The location of each neuron's weights for the sparse FFN: in the file's mapping, or as bundles in memory.
//
// A bundle holds the rows that are read together, so that reading a neuron is one stream of bytes:
//   predicted   [gate | up | down] of one neuron
//   exact       [up | down]; all gates are read, so they are packed in a separate matrix
//   calibrated  [down]; all gates and ups are read. If a device shares the layer: [gate | up | down]
// An FFN without a gate has one row less. If activity counts are known, the hottest neurons come first, so
// that frequently read neurons are adjacent. A plain GGUF file has no neuron-major down projection; the
// layout transposes the file's down projection without changing a weight (kernels/neurons.h, CodedColumns).
//
// A device's hot neurons need not stay in host memory. If they are the first of a layer, their bundles are
// freed once they are copied to the device.
//
// ModelRuntime builds it at load; const afterward.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/placement.h"
#include "engine/neurons/sparsity.h"
#include "kernels/backend.h"
#include "kernels/hybrid_ffn.h"

namespace hearth {

/// One layer as FfnPass reads it. Neuron j of every view is the same neuron, in the layout's order.
struct NeuronLayer {
  FfnNeurons ffn;                       // in the memory of the layer's backend
  const HybridLayer* hybrid = nullptr;  // null: one backend has all neurons; otherwise ffn is hybrid->device
  Linear dense_down;                    // [d_model, d_ff] if a plain file has it; null in bundles
  Matrix predictor_out;                 // [d_ff, rank]; null without predictors, and in other modes' bundles
  const float* down_sizes = nullptr;    // ffn.down_sizes in host memory; calibrated mode only
};

/// Which rows of a neuron its bundle contains, and what else a mode needs in memory.
struct BundleParts {
  bool gates = false;       // gate rows lie in the bundles; false: packed in a matrix
  bool ups = true;          // up rows lie in the bundles; false: packed in a matrix
  bool predictors = false;  // predictors' output rows are copied in the neurons' order
  bool sizes = false;       // norms of the down columns are computed
};
/// The rows that a mode reads together. gates_apart: matrices that a mode reads whole (the gates in exact
/// mode, gates and ups in calibrated mode) are packed separately; false: their rows are in the bundles too.
BundleParts bundle_parts(Sparsity mode, bool gates_apart = true);

/// FNV-1a hash of the neuron order; 0 if the layers keep the file's order.
uint64_t order_hash(const std::vector<std::vector<int32_t>>& order);

class NeuronLayout {
 public:
  /// A neuron order for every layer [n_layers][d_ff]; empty: the file's order.
  using Order = std::vector<std::vector<int32_t>>;

  /// Views of the file's own tensors. REQUIRES: neuron-major down projections (Weights::has_down_rows()),
  /// except for dense runs.
  static NeuronLayout in_file(const ModelSpec& spec, const Weights& weights);

  /// Allocates bundles for the neurons in `order`; fill() writes them. Plain files ignore the order, because
  /// their scales belong to groups of neurons. REQUIRES: a plain file if sizes are computed. Throws
  /// std::bad_alloc.
  static NeuronLayout in_bundles(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                                 const Order& order, Memory& memory);

  /// Bytes that in_bundles() allocates.
  static double bundle_bytes(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                             const Order& order);

  /// Fills the bundles of a layout made by in_bundles() with the same arguments, using n_threads threads.
  /// `progress` is called from the calling thread with the fraction done, including calls of `filled`.
  /// `filled` (may be empty) is called from the calling thread for every layer in order, soon after the layer
  /// was filled; at most n_threads layers are filled ahead of it. Throws whatever those two throw.
  void fill(const ModelSpec& spec, const Weights& weights, const BundleParts& parts, const Order& order,
            int n_threads, const std::function<void(double)>& progress,
            const std::function<void(int layer)>& filled = {});

  /// Appends the host's layer unchanged.
  void add(const NeuronLayer& host) {
    layers_.push_back(host);
    hybrids_.emplace_back();
  }
  /// Appends the host's layer as read by a device that holds all its neurons.
  void add_whole(const NeuronLayer& host, Memory& memory);
  /// Appends the host's layer; the device gets its share as in `placement`. If that is not all neurons, the
  /// layer is hybrid and refers to the memory of `host`.
  void add_shared(const NeuronLayer& host, const LayerPlacement& placement, Memory& memory);

  /// Frees the bundles of a layer's first n neurons. Returns the bytes of the whole pages that were freed.
  size_t give_back(int layer, int64_t n);
  /// The rest of the layer's bundle memory, for pinning; empty if its neurons are read from the file.
  std::span<const std::byte> kept(int layer) const;

  const NeuronLayer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  HybridLayer* hybrid(int index) { return hybrids_[static_cast<size_t>(index)].get(); }
  /// The next hybrid layer after this one; null: none.
  const HybridLayer* next_hybrid(int index) const;
  /// Bytes of all bundles, minus the freed ones.
  size_t bytes() const;

 private:
  std::vector<NeuronLayer> layers_;
  std::vector<Buffer> memory_;      // [n_layers] bundles, or empty
  std::vector<size_t> given_back_;  // [n_layers] bytes freed at the start of each layer's memory
  std::vector<std::unique_ptr<HybridLayer>> hybrids_;  // [n_layers], null: not hybrid
};

}  // namespace hearth
