// HostNeurons: computes neurons on the host while a device computes the other neurons. CpuBackend implements
// it. Simulations use an implementation that only accounts for the time.
#pragma once

#include "kernels/backend.h"
#include "kernels/neuron_sums.h"

namespace hearth {

class HostNeurons {
 public:
  virtual ~HostNeurons() = default;

  /// Like Backend::ffn_neurons(), but for a layer whose other neurons a device sums. Adds the contributions
  /// of each token's neurons in `set` to integer sums [n_tokens, d_model], so the result does not depend on
  /// how neurons are divided between host and device. Does not add the bias. Sets sums.poison for tokens with
  /// a value that is not finite, and leaves it unchanged for other tokens.
  virtual void ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                               const float* gates, const NeuronSums& sums, NeuronCounts& counts) = 0;

  /// Like ffn_neuron_sums(), but adds only those neurons of `set` whose contribution, |value| *
  /// ffn.down_sizes, is not below `least`. NeuronCounts::proposed counts only these neurons. The gate and up
  /// rows of all neurons of `set` are read, but not counted.
  virtual void contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                 float least, const NeuronSums& sums, NeuronCounts& counts) = 0;
};

}  // namespace hearth
