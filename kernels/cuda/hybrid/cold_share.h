// Computes a layer's cold neurons, which are only in host memory. The CPU computes them while the device
// computes the hot neurons. The device hands the input over, the CPU computes its sums, and the device adds
// them to its own.
//
// Owned by CudaHybridFfn; engine thread. Layers are processed one at a time: begin(), then wait() and
// compute() while the device computes, then sums(). CudaHybridFfn enqueues the device's part: the hand-over
// and the merge of the sums.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/host_neurons.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/scratch.h"

namespace hearth::cuda {

class ColdShare {
 public:
  explicit ColdShare(HostNeurons& host) : host_(host) {}

  /// Allocates host memory: pageable memory for the CPU's list of neurons, and pinned memory for everything
  /// that the device reads or writes. Call it at load if there are hybrid layers.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// The inputs of the CPU's share of a layer. The arrays are in device memory.
  struct Layer {
    const float* x = nullptr;      // [n_tokens, n_cols]
    const float* gates = nullptr;  // [n_tokens, n_neurons] or null
    int n_tokens = 0;
    int64_t n_neurons = 0, n_cols = 0;
    std::optional<float> least_contribution = {};  // see HybridCall
  };
  /// Begins a layer. The caller then enqueues the kernel that splits the set and writes cold_bits() and
  /// any_bits(), and behind this kernel the returned hand-over.
  HandOver begin(const Layer& layer, const Scratch& scratch);
  /// The host memory for SplitSet::cold and SplitSet::any. Valid from begin() on.
  uint64_t* cold_bits() const { return wanted_.data(); }
  uint64_t* any_bits() const { return any_.data(); }

  /// Waits until the layer's hand-over has arrived; the device continues with other work. Throws CudaError if
  /// the device fails first, and std::runtime_error if the stream has no more work and the hand-over did not
  /// arrive.
  void wait(cudaStream_t stream) const;

  /// any(): bits of the neurons that at least one token wants. any_cold(): bits of the neurons among them
  /// that the CPU computes. Both have [words] words and are valid from wait() to the next begin().
  std::span<const uint64_t> any() const { return {any_.data(), words_}; }
  std::span<const uint64_t> any_cold() const { return {any_.data() + words_, words_}; }

  /// The neurons that the CPU computes. Valid after compute().
  const NeuronSet& set() const { return set_; }

  /// Computes the CPU's share from the weights in host memory. Call it after wait(). Returns the seconds that
  /// it took. Fills counts.found if the share is not empty.
  double compute(const FfnNeurons& host, NeuronCounts& counts);

  /// The CPU's sums for end_sums(). Valid after compute(). All layers use the same addresses.
  CpuSums sums() const { return {{sums_.data(), poison_.data()}, has_sums_.data()}; }

 private:
  HostNeurons& host_;
  Layer layer_;
  size_t words_ = 0;      // of one token's bits
  uint32_t n_begun_ = 0;  // number of hand-overs begun, which the device also counts
  PinnedArray<uint64_t> wanted_, any_;
  NeuronSet
      set_;  // its bits are in wanted_, where the device writes them; compute() makes the list of neurons
  PinnedArray<float> x_, gates_;
  PinnedArray<uint32_t> number_;
  PinnedArray<int64_t> sums_;
  PinnedArray<int32_t> poison_, has_sums_;
};

}  // namespace hearth::cuda
