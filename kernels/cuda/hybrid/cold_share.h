// The CPU's share of a layer's neurons, computed while the device computes the others. The device hands over
// the input, the CPU computes, and the sums are merged.
//
// Owned by CudaHybridFfn; engine thread. One layer is under way at a time: begin(), then wait() and compute()
// while the device works on, then the sums are merged. CudaHybridFfn enqueues the device's part of this.
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

  /// Allocates host memory: pageable for the CPU's list of neurons, pinned for what the device reads and
  /// writes. At load, where there are hybrid layers.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// The inputs of the CPU's share of a layer: device memory.
  struct Layer {
    const float* x = nullptr;      // [n_tokens, n_cols]
    const float* gates = nullptr;  // [n_tokens, n_neurons] or null
    int n_tokens = 0;
    int64_t n_neurons = 0, n_cols = 0;
    std::optional<float> least_contribution = {};  // see HybridCall
  };
  /// Begins a layer. The caller must enqueue the returned hand-over after the set has been split to
  /// cold_bits() and any_bits().
  HandOver begin(const Layer& layer, const Scratch& scratch);
  /// SplitSet::cold and SplitSet::any, in host memory. Valid from begin() on.
  uint64_t* cold_bits() const { return wanted_.data(); }
  uint64_t* any_bits() const { return any_.data(); }

  /// Waits until the layer has been handed over on the stream; the device works on meanwhile. Throws
  /// CudaError if the device fails before that, std::runtime_error if the stream ends without a hand-over.
  void wait(cudaStream_t stream) const;

  /// The neurons that any token wants, and the CPU's neurons among them: [words] each. Valid from wait() to
  /// the next begin().
  std::span<const uint64_t> any() const { return {any_.data(), words_}; }
  std::span<const uint64_t> any_cold() const { return {any_.data() + words_, words_}; }

  /// The neurons that the CPU computes. Valid after compute().
  const NeuronSet& set() const { return set_; }

  /// Computes the CPU's share from host memory. Call it after wait(). Returns the seconds it took. Fills
  /// counts.found if there were neurons to compute.
  double compute(const FfnNeurons& host, NeuronCounts& counts);

  /// The CPU's sums for end_sums(). Valid after compute(). The addresses are the same for every layer.
  CpuSums sums() const { return {{sums_.data(), poison_.data()}, has_sums_.data()}; }

 private:
  HostNeurons& host_;
  Layer layer_;
  size_t words_ = 0;      // of one token's bits
  uint32_t n_begun_ = 0;  // the number of hand-overs begun, as the device counts them
  PinnedArray<uint64_t> wanted_, any_;
  NeuronSet set_;  // its bits are wanted_: the device writes them, compute() lists them
  PinnedArray<float> x_, gates_;
  PinnedArray<uint32_t> number_;
  PinnedArray<int64_t> sums_;
  PinnedArray<int32_t> poison_, has_sums_;
};

}  // namespace hearth::cuda
