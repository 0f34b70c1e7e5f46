// What the CPU computes of a layer's neurons while the device computes the others: handed over, waited for,
// computed, merged.
//
// Owned by CudaHybridFfn; engine thread. One layer is under way at a time: begin(), then wait() and compute()
// while the device works on, then the sums are merged. What runs on the device CudaHybridFfn enqueues.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/scratch.h"

namespace hearth::cuda {

class ColdShare {
 public:
  explicit ColdShare(CpuBackend& cpu) : cpu_(cpu) {}

  /// Allocates host memory: pageable for the CPU's list of neurons, pinned for what the device reads and
  /// writes. At load, where there are hybrid layers.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// What the CPU is given of a layer: device memory.
  struct Layer {
    const float* x = nullptr;      // [n_tokens, n_cols]
    const float* gates = nullptr;  // [n_tokens, n_neurons] or null
    int n_tokens = 0;
    int64_t n_neurons = 0, n_cols = 0;
    bool proposes = false;  // for the next layer
  };
  /// Begins a layer whose set lies parted in scratch. The device must do what is returned.
  HandOver begin(const Layer& layer, const Scratch& scratch);

  /// Waits until the layer has been handed over on the stream; the device goes on meanwhile. Throws CudaError
  /// if the device fails before that, std::runtime_error if the stream ends without.
  void wait(cudaStream_t stream) const;

  /// Neurons that any token wants, and of these those that are the CPU's: [words] each. Valid from wait() to
  /// the next begin().
  std::span<const uint64_t> any() const { return {any_.data(), words_}; }
  std::span<const uint64_t> any_cold() const { return {any_.data() + words_, words_}; }
  /// What the next layer is expected to want; empty: not proposed.
  std::span<const uint64_t> proposed() const {
    return {any_.data() + 2 * words_, layer_.proposes ? words_ : 0};
  }

  /// Neurons that the CPU computes. After compute().
  const NeuronSet& set() const { return set_; }

  /// Computes the CPU's share from its own memory. After wait(). Returns the seconds it took. counts.found is
  /// filled if there were neurons to compute.
  double compute(const FfnNeurons& host, NeuronCounts& counts);

  /// The CPU's sums, and whether there are any (0: none), in host memory that the device reads: for
  /// merge_sums(), after compute(). The same places for every layer.
  NeuronSums sums() const { return {sums_.data(), poison_.data()}; }
  const int32_t* has_sums() const { return has_sums_.data(); }

 private:
  CpuBackend& cpu_;
  Layer layer_;
  size_t words_ = 0;      // of a token's bits
  uint32_t n_begun_ = 0;  // hand-overs, as the device counts them
  PinnedArray<uint64_t> wanted_, any_;
  NeuronSet set_;  // around wanted_: the device writes the bits, compute() lists them
  PinnedArray<float> x_, gates_;
  PinnedArray<uint32_t> number_;
  PinnedArray<int64_t> sums_;
  PinnedArray<int32_t> poison_, has_sums_;
};

}  // namespace hearth::cuda
