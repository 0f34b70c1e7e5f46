// Decides in a simulation which neurons of a layer are active for a token, and which experts its router
// chooses. Neurons are drawn for each token with the frequencies of the layer's activity; for a given token
// the result is always the same. PlantedChoice has the experts.
//
// A simulated device computes no products. Where a product would decide which neurons are active (with a gate
// matrix, or a predictor's output rows), this writes scores instead: above any threshold for neurons that are
// to be active or proposed, below it for others. A predictor proposes all active neurons and as many others
// as PlacementAssumptions says. A predictor that looks ahead to the next layer is right for the share of
// neurons that is assumed there. A router's logits are highest for the planted experts, in their order.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/placement/layer_options.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "profiler/synthesis/planted_choice.h"

namespace hearth {

class PlantedActivity {
 public:
  /// `activity` has a curve for every layer. Neurons have the numbers in its `hottest`; if that is empty,
  /// they are in order of activity. `choices` must outlive it.
  PlantedActivity(const ModelActivity& activity, const ModelSpec& spec,
                  const PlacementAssumptions& assumptions, PlantedChoice& choices);

  /// Learns the matrices that identify a layer: the first of its attention, its predictor, its gates, its
  /// router.
  void learn(int layer, const LayerWeights& weights, const NeuronLayer& neurons);
  /// The step's first token is the n-th of the simulation.
  void begin_step(int64_t n) { first_token_ = n; }

  /// Writes the scores of the product's neurons if they decide activity, or the logits if it is a router, and
  /// remembers which layer is computed.
  void product(const cuda::SimulatedProduct& product);

  /// Whether a neuron of the layer that is computed is active for token t of the step.
  bool is_active(int t, int64_t neuron) const;
  int layer() const { return layer_; }

 private:
  enum class Kind : uint8_t { kAttention, kPredictor, kGates, kRouter };
  struct Known {
    int layer;
    Kind kind;
  };
  /// Probabilities in units of 2^-32, by neuron.
  struct Chances {
    std::vector<uint32_t> active, proposed;
  };
  const Chances& chances_of(int layer) const {
    return chances_[static_cast<size_t>(chances_of_layer_[static_cast<size_t>(layer)])];
  }
  uint64_t seed(int layer, int t) const;
  void fill(const cuda::SimulatedProduct& product, int layer, bool predictor);
  void fill_logits(const cuda::SimulatedProduct& product);

  PlantedChoice& choices_;
  std::map<const std::byte*, Known> known_;
  std::vector<Chances> chances_;
  std::vector<int> chances_of_layer_;
  uint32_t right_ahead_;  // probability that the look-ahead predictor agrees with the layer's own
  int64_t d_ff_;
  bool neurons_are_chosen_;  // false for mixtures, which compute every neuron of an expert or FFN
  int64_t first_token_ = 0;
  int layer_ = 0;
};

}  // namespace hearth
