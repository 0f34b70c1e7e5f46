// The location of each neuron's weights for the sparse FFN: in the file's mapping, or as bundles in memory.
//
// A bundle holds the rows that are read together, so that reading a neuron is one stream of bytes:
//   predicted   [gate | up | down] of one neuron
//   exact       [up | down]; all gate rows are read, so they are packed in a separate matrix
//   calibrated  [down]; all gate and up rows are read, so they are packed in separate matrices
// If the CPU and a device share the layer, bundles are [gate | up | down] in calibrated mode, and also in
// exact mode unless the device has all gate rows. In an FFN without a gate, the up row takes the gate row's
// place.
//
// If activity counts are known, the hottest neurons come first, so that frequently read neurons are adjacent.
// A plain GGUF file has no neuron-major down projection; the layout transposes the file's down projection
// without changing a weight (kernels/neurons.h, CodedColumns).
//
// A device's hot neurons need not stay in host memory. If the hot neurons are the first neurons of a layer,
// their bundles are freed after the copy to the device.
//
// NeuronSetup builds a layout at load; const afterward.
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

/// One layer as FfnPass reads it. Index j means the same neuron in all views: neuron j of the layout's order.
struct NeuronLayer {
  FfnNeurons ffn;  // in the memory of the layer's backend
  // Null if one backend has all neurons. If it is not null, `ffn` equals hybrid->device.
  const HybridLayer* hybrid = nullptr;
  Linear dense_down;  // [d_model, d_ff], the down projection of a plain GGUF file; null if there are bundles
  // [d_ff, rank], the predictor's output matrix. Null if the model has no predictors, or if there are
  // bundles and the mode is not predicted.
  Matrix predictor_out;
  const float* down_sizes = nullptr;  // ffn.down_sizes in host memory; calibrated mode only
};

/// Selects the rows that a neuron's bundle contains, and the other data that a mode needs in memory.
struct BundleParts {
  bool gates = false;       // gate rows are in the bundles; false: packed in a separate matrix
  bool ups = true;          // up rows are in the bundles; false: packed in a separate matrix
  bool predictors = false;  // output rows of the predictors are copied in the order of the neurons
  bool sizes = false;       // norms of the down columns are computed
};
/// Returns the parts of a bundle in a mode. gates_apart: whether the matrices that the mode reads whole (gate
/// in exact mode, gate and up in calibrated mode) are packed separately; if false, their rows are in the
/// bundles.
BundleParts bundle_parts(Sparsity mode, bool gates_apart = true);

/// FNV-1a hash of the neuron order; 0 if `order` is empty (the layers keep the file's order).
uint64_t order_hash(const std::vector<std::vector<int32_t>>& order);

class NeuronLayout {
 public:
  /// The neuron order of every layer [n_layers][d_ff]; empty for the file's order.
  using Order = std::vector<std::vector<int32_t>>;

  /// Views of the file's own tensors. REQUIRES: neuron-major down projections (Weights::has_down_rows()),
  /// unless the mode is dense.
  static NeuronLayout in_file(const ModelSpec& spec, const Weights& weights);

  /// Allocates bundles for the neurons; fill() writes them. They have the given order, but those of a plain
  /// GGUF file keep the file's order, because its scales belong to groups of neurons. REQUIRES: if
  /// parts.sizes is set, the file is plain GGUF. Throws std::bad_alloc.
  static NeuronLayout in_bundles(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                                 const Order& order, Memory& memory);

  /// Bytes that in_bundles() allocates.
  static double bundle_bytes(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                             const Order& order);

  /// Fills the bundles of a layout made by in_bundles() with the same arguments, using n_threads threads. The
  /// calling thread makes all calls of `progress` and `filled`. `filled` (may be empty) is called for every
  /// layer, in order. When it is called, at most n_threads layers are filled that were not passed to it yet.
  /// `progress` gets the completed fraction of filling and of the calls of `filled`. Exceptions of `progress`
  /// and `filled` propagate.
  void fill(const ModelSpec& spec, const Weights& weights, const BundleParts& parts, const Order& order,
            int n_threads, const std::function<void(double)>& progress,
            const std::function<void(int layer)>& filled = {});

  /// Appends the host's layer unchanged.
  void add(const NeuronLayer& host) {
    layers_.push_back(host);
    hybrids_.emplace_back();
  }
  /// Appends a layer for a device that holds all neurons of the layer `host`.
  void add_whole(const NeuronLayer& host, Memory& memory);
  /// Appends a layer for a device that computes only some neurons of the layer `host`: those in `placement`.
  /// If these are not all neurons, the new layer is hybrid and refers to the memory of `host`.
  void add_shared(const NeuronLayer& host, const LayerPlacement& placement, Memory& memory);

  /// Frees the whole pages in the bundles of a layer's first n neurons. Returns the number of bytes freed.
  size_t give_back(int layer, int64_t n);
  /// The part of the layer's bundle memory that is not freed, for pinning; empty if the layer's neurons are
  /// read from the file.
  std::span<const std::byte> kept(int layer) const;

  const NeuronLayer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  HybridLayer* hybrid(int index) { return hybrids_[static_cast<size_t>(index)].get(); }
  /// The next hybrid layer after this one; null if there is none.
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
