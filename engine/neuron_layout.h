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
// Built at load by ModelRuntime, const afterwards.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/model_spec.h"
#include "engine/sparsity.h"
#include "engine/weights.h"
#include "kernels/backend.h"

namespace hearth {

/// One layer as FfnPass reads it. Neuron j of every view is the same neuron, in the layout's order.
struct NeuronLayer {
  FfnNeurons ffn;
  Linear dense_down;                  // [d_model, d_ff] where a plain file holds it; null in bundles
  Matrix predictor_out;               // [d_ff, rank]; null without predictors, and in bundles of other modes
  const float* down_sizes = nullptr;  // [d_ff] Euclidean norm of each down column; calibrated mode only
};

class NeuronLayout {
 public:
  /// An order of the neurons for every layer [n_layers][d_ff], or empty: the file's own.
  using Order = std::vector<std::vector<int32_t>>;

  /// Views of the file's own tensors. REQUIRES: neuron-major down projections (Weights::has_down_rows()).
  static NeuronLayout in_file(const ModelSpec& spec, const Weights& weights);

  /// Bundles for `mode`, in `order`. Layers are copied by n_threads threads; progress is called with the
  /// share done, from the calling thread. Throws std::bad_alloc, and what progress throws. The order is not
  /// used for plain files, whose scales belong to runs of neurons. REQUIRES: a plain file if calibrated, as
  /// plan_sparsity() has it.
  static NeuronLayout in_bundles(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                                 const Order& order, int n_threads, Backend& backend,
                                 const std::function<void(double)>& progress);

  /// Bytes that in_bundles takes.
  static double bundle_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                             const Order& order);

  /// The same neurons in the backend's memory; biases and sizes too. Throws std::bad_alloc.
  NeuronLayout resident(Backend& backend) const;  // must not outlive this one

  /// Which neurons a device gets, and whether it gets all gates of the layer besides.
  struct LayerShare {
    std::vector<int32_t> hot;  // neuron numbers in this layout, ascending, none twice
    bool all_gates = false;
  };
  /// The same neurons shared between the backend's memory and this layout, per layer; predictors go to the
  /// backend whole. Must not outlive this one. REQUIRES: neuron-major down projections in every layer.
  NeuronLayout shared(std::span<const LayerShare> shares, Backend& backend) const;

  const NeuronLayer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  size_t bytes() const;

 private:
  std::vector<NeuronLayer> layers_;
  std::vector<Buffer> memory_;
  std::vector<std::unique_ptr<NeuronResidency>> residencies_;  // [n_layers] of a shared layout
};

}  // namespace hearth
