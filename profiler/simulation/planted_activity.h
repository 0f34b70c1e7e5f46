// Decides in a simulation which neurons of a layer are active for a token, and which experts its router
// chooses. For each token, neurons are drawn at random with the frequencies of the layer's activity. A given
// token always gets the same result. PlantedChoice decides about experts.
//
// A simulated device computes no products. On a real device, products with a gate matrix or with a
// predictor's output rows decide which neurons are active. For such a product, this class writes scores
// instead: above any threshold for neurons that are to be active or proposed, and below any threshold for
// others. A predictor proposes all active neurons and as many others as PlacementAssumptions states. A
// predictor that looks ahead to the next layer is right for the share of neurons that PlacementAssumptions
// states. A router's logits are highest for the planted experts, in their order.
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
  /// `activity` must have a curve for every layer. Its `hottest` lists the neurons of a layer from the
  /// hottest on; if it is empty, neurons are numbered from the hottest on. `choices` must outlive this
  /// object.
  PlantedActivity(const ModelActivity& activity, const ModelSpec& spec,
                  const PlacementAssumptions& assumptions, PlantedChoice& choices);

  /// Stores the addresses of the matrices by which a product's layer and kind are recognized: the layer's
  /// router, gates and predictor, and the first matrix of its attention.
  void learn(int layer, const LayerWeights& weights, const NeuronLayer& neurons);
  /// Begins a step whose first token is number n of the simulation.
  void begin_step(int64_t n) { first_token_ = n; }

  /// Remembers the layer that the product belongs to. If the product decides activity, writes scores for its
  /// neurons; if its matrix is a router, writes logits.
  void product(const cuda::SimulatedProduct& product);
  /// Fills in the planted choice of the layer whose router was the last one in product().
  void route(const cuda::SimulatedRoute& route) const;

  /// Returns whether a neuron of the current layer is active for token t of the step.
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
  // probability that a predictor that looks ahead agrees with the layer's own predictor
  uint32_t right_ahead_;
  int64_t d_ff_;
  bool neurons_are_chosen_;  // false for mixtures, whose experts and FFNs compute all their neurons
  int64_t first_token_ = 0;
  int layer_ = 0;
};

}  // namespace hearth
