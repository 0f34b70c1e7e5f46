// Receives the neurons of a dense pass while it runs; used to train and evaluate predictors.
//
// Called by FfnPass on the engine thread, layer by layer. See NeuronObservation::observe_neurons.
#pragma once

namespace hearth {

class NeuronObserver {
 public:
  virtual ~NeuronObserver() = default;

  /// Receives the input of the layer's predictor, x [n_tokens, d_model]; called before values() of that
  /// layer.
  virtual void input(int layer, const float* x, int n_tokens) = 0;

  /// Receives all values of the layer, act(gate) * up, [n_tokens, d_ff] in the file's order, before the
  /// multiplication by the down projection. Setting a value to zero skips the neuron for that token.
  virtual void values(int layer, float* values, int n_tokens) = 0;
};

}  // namespace hearth
