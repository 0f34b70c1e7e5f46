// Which neurons of which layer are active for which token, in a simulation: drawn anew for each token, as often as the
// layer's activity says, and always the same for the same token.
//
// A simulated device computes no products. Where one would decide which neurons are active (of a gate matrix, or of a
// predictor's output rows) this writes scores instead: above any threshold for neurons that are to be active or proposed,
// below it for others. A predictor proposes all active neurons and as many others as PlacementAssumptions says. Asked ahead
// for the next layer, it is right for the share of neurons that is assumed there.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/neuron_layout.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "profiler/placement/layer_options.h"

namespace hearth {

class PlantedActivity {
 public:
  /// `activity` has a curve for every layer; neurons have the numbers of its `hottest`, or are in order of activity.
  PlantedActivity(const ModelActivity& activity, const ModelSpec& spec,
                  const PlacementAssumptions& assumptions);

  /// Learns by which matrices a layer is known: its first of attention, its predictor, its gates.
  void learn(int layer, const LayerWeights& weights, const NeuronLayer& neurons);
  /// The step's first token is the n-th of the simulation.
  void begin_step(int64_t n) { first_token_ = n; }

  /// The scores of the product's neurons, if they decide; remembers which layer is computed.
  void product(const cuda::SimulatedProduct& product);

  /// Whether a neuron of the layer that is computed is active for token t of the step.
  bool is_active(int t, int64_t neuron) const;
  int layer() const { return layer_; }

 private:
  enum class Kind : uint8_t { kAttention, kPredictor, kGates };
  struct Known {
    int layer;
    Kind kind;
  };
  /// Chances in units of 2^-32, by neuron.
  struct Chances {
    std::vector<uint32_t> active, proposed;
  };
  const Chances& chances_of(int layer) const {
    return chances_[static_cast<size_t>(chances_of_layer_[static_cast<size_t>(layer)])];
  }
  uint64_t seed(int layer, int t) const;
  void fill(const cuda::SimulatedProduct& product, int layer, bool predictor);

  std::map<const std::byte*, Known> known_;
  std::vector<Chances> chances_;
  std::vector<int> chances_of_layer_;
  uint32_t right_ahead_;  // the chance that the look-ahead predictor sees what the layer's own will see
  int64_t d_ff_;
  bool neurons_are_chosen_;  // false in mixtures: of these every neuron of an expert or FFN is computed
  int64_t first_token_ = 0;
  int layer_ = 0;
};

}  // namespace hearth
