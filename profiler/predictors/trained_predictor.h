// Defines a trained predictor, the meaning of its threshold, and an observer with which a model runs as if it
// had predictors that are not in a file yet.
//
// Each layer needs its own threshold, which must be proportional to the input's size, because logits are. But
// the file has only one constant threshold for all layers, and PowerInfer's predictors have no biases that
// could be added to logits. Therefore the weights include the threshold: least squares finds a weighted sum
// of the predictor's hidden units that is close to the input's root mean square for any input. The weights of
// this sum, multiplied by the layer's threshold, are subtracted from every neuron's row. A neuron is then
// proposed if its logit is at least 0.
//
// Used by training, on the thread that runs the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/ffn_observers.h"
#include "profiler/predictors/predictor_net.h"
#include "profiler/predictors/recording.h"

namespace hearth {

struct TrainedPredictor {
  PredictorView net;        // the viewed net must outlive this object
  std::vector<float> unit;  // [rank]: weights with which the units' outputs sum to about the input's size
  float input_scale = 1;    // the median root mean square of inputs in the model
};

/// Computes `unit` and `input_scale` from the first n_rows rows of the layer's recording.
TrainedPredictor with_unit(FloatProducts& products, const PredictorView& net, const RecordFile& record,
                           int64_t n_rows);

/// Computes logits [n_tokens, d_ff] for x [n_tokens, d_model], and divides them by an estimate of the input's
/// size (`unit`). A neuron is proposed if the quotient is at least the threshold. This is equivalent to a
/// logit >= 0 in the net that shifted(threshold) returns. Resizes the vectors.
void predict_over_unit(FloatProducts& products, const TrainedPredictor& predictor, const float* x,
                       int64_t n_tokens, std::vector<float>& hidden, std::vector<float>& logits);

/// Returns a net whose logits are lower by `threshold` for inputs of typical size. This net is the one that
/// is written to files.
PredictorNet shifted(const TrainedPredictor& predictor, float threshold);

/// Counts of a layer's active and proposed neurons.
struct ProposalCounts {
  int64_t n_neurons = 0;  // neurons counted: tokens times d_ff
  int64_t n_active = 0, n_proposed = 0, n_active_proposed = 0;

  double active() const { return share(n_active, n_neurons); }
  double proposed() const { return share(n_proposed, n_neurons); }
  double recall() const { return n_active == 0 ? 1 : share(n_active_proposed, n_active); }
  double false_positives() const { return share(n_proposed - n_active_proposed, n_neurons - n_active); }
  void add(const ProposalCounts& other);
  /// Counts n neurons. A neuron is active if its activation in `values` is not 0, and proposed if its logit
  /// reaches the threshold.
  void look(const float* values, const float* logits, int64_t n, float threshold);

 private:
  static double share(int64_t part, int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

class ProposingObserver final : public NeuronObserver {
 public:
  /// Both arguments must outlive this object. At first, every neuron of every layer is proposed.
  ProposingObserver(FloatProducts& products, std::span<const TrainedPredictor> predictors);

  /// Sets the thresholds [n_layers], relative to the input's size. A threshold of minus infinity leaves the
  /// layer's neurons unchanged and uncounted.
  void use(std::span<const float> thresholds);
  /// Counts [n_layers] since the last use().
  std::span<const ProposalCounts> counts() const { return counts_; }

  void input(int layer, const float* x, int n_tokens) override;
  void values(int layer, float* values, int n_tokens) override;

 private:
  FloatProducts& products_;
  std::span<const TrainedPredictor> predictors_;
  std::vector<float> thresholds_;
  std::vector<ProposalCounts> counts_;
  std::vector<float> hidden_, logits_;  // for the layer that runs
};

}  // namespace hearth
