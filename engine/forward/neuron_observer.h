// Receives the neurons of a dense pass while it runs. Training and evaluation of predictors use it.
//
// Called by FfnPass on the engine thread, layer by layer. See NeuronObservation::observe_neurons.
#pragma once

namespace hearth {

class NeuronObserver {
 public:
  virtual ~NeuronObserver() = default;

  /// Receives the input of the layer's predictor, x [n_tokens, d_model]; called before values() of the same
  /// layer.
  virtual void input(int layer, const float* x, int n_tokens) = 0;

  /// Receives all the layer's values, act(gate) * up, [n_tokens, d_ff] in the file's order, before they are
  /// multiplied by the down projection. A value that is set to zero skips the neuron for that token.
  virtual void values(int layer, float* values, int n_tokens) = 0;
};

}  // namespace hearth
