// Interface for computing the neurons in host memory while a device computes the others: implemented by
// CpuBackend, and in simulations by an object that only accounts for their time.
#pragma once

#include "kernels/backend.h"
#include "kernels/neuron_sums.h"

namespace hearth {

class HostNeurons {
 public:
  virtual ~HostNeurons() = default;

  /// Like Backend::ffn_neurons(), for a layer whose other neurons a device sums. Adds the contributions of
  /// each token's neurons in `set` to integer sums [n_tokens, d_model], which do not depend on how the
  /// neurons are divided. Does not add the bias. Sets `poison` where a value is not finite, and leaves it
  /// unchanged elsewhere.
  virtual void ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                               const float* gates, const NeuronSums& sums, NeuronCounts& counts) = 0;

  /// Like ffn_neuron_sums(), with only those neurons of `set` whose contribution, |value| * ffn.down_sizes,
  /// is not below `least`. Gate and up rows of all of `set` are read but not counted; NeuronCounts::proposed
  /// counts the remaining neurons.
  virtual void contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                 float least, const NeuronSums& sums, NeuronCounts& counts) = 0;
};

}  // namespace hearth
