// Interface for computing the neurons in host memory while a device computes the others. CpuBackend
// implements it; in simulations, an object that only accounts for the time implements it.
#pragma once

#include "kernels/backend.h"
#include "kernels/neuron_sums.h"

namespace hearth {

class HostNeurons {
 public:
  virtual ~HostNeurons() = default;

  /// Like Backend::ffn_neurons(), but for a layer in which a device sums the other neurons. Adds the
  /// contributions of each token's neurons in `set` to integer sums [n_tokens, d_model], so the result does
  /// not depend on how neurons are divided between host and device. Does not add the bias. Sets the `poison`
  /// of tokens with a value that is not finite, and leaves that of other tokens unchanged.
  virtual void ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                               const float* gates, const NeuronSums& sums, NeuronCounts& counts) = 0;

  /// Like ffn_neuron_sums(), but adds only those neurons of `set` whose contribution, |value| *
  /// ffn.down_sizes, is not below `least`. NeuronCounts::proposed counts only these neurons. The gate and up
  /// rows of all neurons of `set` are read, but not counted.
  virtual void contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                 float least, const NeuronSums& sums, NeuronCounts& counts) = 0;
};

}  // namespace hearth
