// Whoever computes the neurons that lie in host memory while a device computes the others: the CpuBackend, or in a
// simulation what charges their time.
#pragma once

#include "kernels/backend.h"
#include "kernels/neuron_sums.h"

namespace hearth {

class HostNeurons {
 public:
  virtual ~HostNeurons() = default;

  /// Like Backend::ffn_neurons(), for a layer whose other neurons a device sums. Each token's neurons in `set` add their
  /// contributions to integer sums [n_tokens, d_model], which are the same however the neurons are shared out. The bias is
  /// not added. `poison` is set where a value is not finite and left unchanged elsewhere.
  virtual void ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                               const float* gates, const NeuronSums& sums, NeuronCounts& counts) = 0;

  /// The same with the neurons of `set` whose contribution, |value| * ffn.down_sizes, is not below `least`. Gates and ups of
  /// all of `set` are read, and not counted; NeuronCounts::proposed counts the neurons that are left.
  virtual void contribution_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                 float least, const NeuronSums& sums, NeuronCounts& counts) = 0;
};

}  // namespace hearth
