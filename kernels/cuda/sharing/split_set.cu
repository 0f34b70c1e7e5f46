// Splits a set of neurons in two: those that have a device row, and the others, which the CPU computes.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    split_kernel(const uint64_t* all, const uint64_t* resident, int n_tokens, int64_t n_words, uint64_t* hot,
                 uint64_t* cold, uint64_t* any_hot, uint64_t* any) {
  const int64_t word = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (word >= n_words) return;
  const uint64_t here = resident[word];
  uint64_t any_wanted = 0;
  for (int t = 0; t < n_tokens; ++t) {
    const uint64_t wanted = all[t * n_words + word];
    hot[t * n_words + word] = wanted & here;
    cold[t * n_words + word] = wanted & ~here;
    any_wanted |= wanted;
  }
  any_hot[word] = any_wanted & here;
  any[word] = any_wanted;
  any[n_words + word] = any_wanted & ~here;
}

}  // namespace

void split_set(const DeviceNeuronSet& all, const uint64_t* resident, const DeviceNeuronSet& hot,
               uint64_t* cold, uint64_t* any, void* scratch, cudaStream_t stream) {
  if (all.n_tokens == 0 || all.n_neurons == 0) return list_bits(nullptr, 0, hot.any, stream);
  const int64_t n_words = (all.n_neurons + 63) / 64;
  auto* any_hot = static_cast<uint64_t*>(scratch);
  const auto blocks = static_cast<unsigned>((n_words + kThreads - 1) / kThreads);
  check(gpu_launch(split_kernel, blocks, kThreads, 0, stream, all.wanted, resident, all.n_tokens, n_words,
                   hot.wanted, cold, any_hot, any),
        "parting neurons by where they are");
  list_bits(any_hot, all.n_neurons, hot.any, stream);
}

}  // namespace hearth::cuda
