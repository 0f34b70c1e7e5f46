// A model run with predictors that are being made: neurons they do not propose are taken out of a dense pass,
// which gives what the predicted mode would, and every proposal is held against the truth.
//
// Thresholds change between runs without a file being written or loaded. Used by training, on the thread that
// runs the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/neuron_observer.h"
#include "profiler/predictors/trained_predictor.h"

namespace hearth {

/// What a layer's predictor was seen to do.
struct ProposalCounts {
  int64_t n_neurons = 0;  // looked at: tokens times d_ff
  int64_t n_active = 0, n_proposed = 0, n_active_proposed = 0;

  double active() const { return share(n_active, n_neurons); }
  double proposed() const { return share(n_proposed, n_neurons); }
  double recall() const { return n_active == 0 ? 1 : share(n_active_proposed, n_active); }
  double false_positives() const { return share(n_proposed - n_active_proposed, n_neurons - n_active); }
  void add(const ProposalCounts& other);
  /// Adds n neurons, whose values tell whether they are active and logits whether they are proposed.
  void look(const float* values, const float* logits, int64_t n, float threshold);

 private:
  static double share(int64_t part, int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

class ProposingObserver final : public NeuronObserver {
 public:
  /// Both must outlive it. Begins with every neuron of every layer proposed.
  ProposingObserver(FloatProducts& products, std::span<const TrainedPredictor> predictors);

  /// [n_layers], over the input's size; minus infinity: the layer is left as it is, and not looked at.
  void use(std::span<const float> thresholds);
  /// [n_layers], since the last use().
  std::span<const ProposalCounts> counts() const { return counts_; }

  void input(int layer, const float* x, int n_tokens) override;
  void values(int layer, float* values, int n_tokens) override;

 private:
  FloatProducts& products_;
  std::span<const TrainedPredictor> predictors_;
  std::vector<float> thresholds_;
  std::vector<ProposalCounts> counts_;
  std::vector<float> hidden_, logits_;  // of the layer that runs
};

}  // namespace hearth
