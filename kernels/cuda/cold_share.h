// What the CPU computes of a layer's neurons while the device computes the others: handed over, waited for,
// computed, merged.
//
// Owned by CudaBackend; engine thread. One layer is under way at a time: hand_over(), then wait() and
// compute() while the device works on, then merge().
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scratch.h"

namespace hearth::cuda {

/// What the CPU is given of a layer: device memory.
struct HandOver {
  const uint64_t* cold_wanted = nullptr;  // [n_tokens, words] which token wants which of the CPU's neurons
  const uint64_t* any = nullptr;          // [2, words] as Scratch::any
  const float* x = nullptr;               // [n_tokens, n_cols]
  const float* gates = nullptr;           // [n_tokens, n_neurons] or null
  int n_tokens = 0;
  int64_t n_neurons = 0, n_cols = 0;
};

class ColdShare {
 public:
  explicit ColdShare(CpuBackend& cpu) : cpu_(cpu) {}

  /// Takes the CPU's and pinned memory. At load, where neurons are shared at all.
  void reserve(const StepBounds& bounds);

  /// Enqueues the way to the CPU of what it needs for its share.
  void hand_over(const HandOver& given, cudaStream_t stream);
  /// Waits until that has arrived; the device goes on meanwhile.
  void wait();

  /// Neurons that any token wants, and of these those that are the CPU's: [words] each. Valid from wait() to
  /// the next hand_over().
  std::span<const uint64_t> any() const { return {any_.data(), given_.words}; }
  std::span<const uint64_t> any_cold() const { return {any_.data() + given_.words, given_.words}; }

  /// Computes the CPU's share from its own memory. After wait().
  void compute(const FfnNeurons& host, NeuronCounts& counts);
  /// Enqueues: sums += the CPU's. After compute().
  void merge(const NeuronSums& sums, const Scratch& scratch, cudaStream_t stream);

 private:
  struct Given {
    int n_tokens = 0;
    int64_t n_neurons = 0, n_cols = 0;
    size_t words = 0;  // of a token
    bool gates = false;
  };

  CpuBackend& cpu_;
  Given given_;
  NeuronSet set_;
  PinnedArray<uint64_t> wanted_, any_;
  PinnedArray<float> x_, gates_;
  PinnedArray<int64_t> sums_;
  PinnedArray<int32_t> poison_;
  Event arrived_;
};

}  // namespace hearth::cuda
