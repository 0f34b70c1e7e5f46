// The interface through which a dense pass shows its neurons while it runs. Predictors are trained and judged by it.
//
// Called by FfnPass on the engine thread, layer by layer. See NeuronObservation::observe_neurons.
#pragma once

namespace hearth {

class NeuronObserver {
 public:
  virtual ~NeuronObserver() = default;

  /// What the layer's predictor reads, x [n_tokens, d_model]; before values() of the same layer.
  virtual void input(int layer, const float* x, int n_tokens) = 0;

  /// All the layer's values, act(gate) * up, [n_tokens, d_ff] in the file's order, before they meet the down
  /// projection. A value that is set to zero adds nothing: the neuron is skipped for that token.
  virtual void values(int layer, float* values, int n_tokens) = 0;
};

}  // namespace hearth
