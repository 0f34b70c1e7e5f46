// Where each neuron's weights lie for the sparse FFN: in the file's mapping, or as bundles in memory.
//
// A bundle is what is read together, laid together, so that a neuron is one stream of bytes:
//   predicted   [gate | up | down] of one neuron
//   exact       [up | down]; gates are all read, so they stay one behind the other
//   calibrated  [down]; gates and ups are all read
// An FFN without a gate has one row less. Where counts of activity are known, neurons lie hottest first, so
// that what is read often lies together too. A model file that has no neuron-major down projection (a plain
// GGUF file) gets one here, turned without changing a weight (kernels/neurons.h, CodedColumns).
//
// Of neurons that a device has for good nothing need stay in host memory: where those are the first of a
// layer, their bundles are given back once they are copied.
//
// Built at load by ModelRuntime, const afterwards.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/placement.h"
#include "engine/residency/sparsity.h"
#include "kernels/backend.h"
#include "kernels/hybrid_ffn.h"

namespace hearth {

/// One layer as FfnPass reads it. Neuron j of every view is the same neuron, in the layout's order.
struct NeuronLayer {
  FfnNeurons ffn;  // as the layer's backend reads it
  const HybridLayer* hybrid =
      nullptr;                        // null: one backend has all neurons; else it has hybrid->device == ffn
  Linear dense_down;                  // [d_model, d_ff] where a plain file holds it; null in bundles
  Matrix predictor_out;               // [d_ff, rank]; null without predictors, and in bundles of other modes
  const float* down_sizes = nullptr;  // [d_ff] Euclidean norm of each down column; calibrated mode only
};

/// Which rows of a neuron lie in its bundle, and what else is laid out for a mode.
struct BundleParts {
  bool gates = false;       // gate rows lie in the bundles, else packed
  bool ups = true;          // up rows too, else packed
  bool predictors = false;  // predictors' rows follow the neurons' order
  bool sizes = false;       // norms of the down columns are computed
};
/// What a mode reads together. `gates_apart`: gates are all read, or by a device; else by neuron.
BundleParts bundle_parts(Sparsity mode, bool gates_apart = true);

/// FNV-1a hash of an order of neurons; 0 if layers keep the file's order.
uint64_t order_hash(const std::vector<std::vector<int32_t>>& order);

class NeuronLayout {
 public:
  /// An order of the neurons for every layer [n_layers][d_ff], or empty: the file's own.
  using Order = std::vector<std::vector<int32_t>>;

  /// Views of the file's own tensors. REQUIRES: neuron-major down projections (Weights::has_down_rows()), but
  /// for dense runs.
  static NeuronLayout in_file(const ModelSpec& spec, const Weights& weights);

  /// Places for bundles in `order`; nothing is in them before fill(). The order is not used for plain files,
  /// whose scales belong to runs of neurons. REQUIRES: a plain file for sizes. Throws std::bad_alloc.
  static NeuronLayout in_bundles(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                                 const Order& order, Memory& memory);

  /// Bytes that in_bundles takes.
  static double bundle_bytes(const ModelSpec& spec, const Weights& weights, const BundleParts& parts,
                             const Order& order);

  /// Fills the bundles of a layout of in_bundles(), given the same, by n_threads threads. `progress` is
  /// called with the share done, from the calling thread; `filled` (may be empty) too, for every layer in
  /// turn, soon after it was filled: n_threads layers are filled ahead of it at most. Throws what those
  /// throw.
  void fill(const ModelSpec& spec, const Weights& weights, const BundleParts& parts, const Order& order,
            int n_threads, const std::function<void(double)>& progress,
            const std::function<void(int layer)>& filled = {});

  /// The next layer of this layout: the host's as it is.
  void add(const NeuronLayer& host) {
    layers_.push_back(host);
    hybrids_.emplace_back();
  }
  /// The next layer of this layout, the host's as a device reads it where it has all neurons.
  void add_whole(const NeuronLayer& host, Memory& memory);
  /// The next layer of this layout, of which the device gets what `placement` says. If those are not all
  /// neurons the layer is hybrid, and refers to the memory of `host`.
  void add_shared(const NeuronLayer& host, const LayerPlacement& placement, Memory& memory);

  /// Gives back the memory of the first n neurons' bundles of a layer. Returns the bytes of whole pages.
  size_t give_back(int layer, int64_t n);
  /// What is left of the layer's memory, for pinning; empty if its neurons lie in the file.
  std::span<const std::byte> kept(int layer) const;

  const NeuronLayer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  HybridLayer* hybrid(int index) { return hybrids_[static_cast<size_t>(index)].get(); }
  /// The first hybrid layer behind this one; null: none.
  const HybridLayer* next_hybrid(int index) const;
  /// Of bundles, less what was given back.
  size_t bytes() const;

 private:
  std::vector<NeuronLayer> layers_;
  std::vector<Buffer> memory_;                         // [n_layers] of bundles, or empty
  std::vector<size_t> given_back_;                     // [n_layers] bytes from each begin
  std::vector<std::unique_ptr<HybridLayer>> hybrids_;  // [n_layers], null: not hybrid
};

}  // namespace hearth
