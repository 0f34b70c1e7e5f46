// Which neurons matter: scores that are not below a threshold, as bits per token and as a list for all.
#include "kernels/cuda/neurons/neuron_list.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"

namespace hearth::cuda {
namespace {

__global__ void __launch_bounds__(kListThreads)
    score_kernel(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
                 uint64_t* wanted, uint64_t* any) {
  const int64_t n_words = (n_neurons + 63) / 64;
  const auto matters = [&](int t, int64_t j) {
    const float value = values[t * n_neurons + j];
    const float score = sizes == nullptr ? value : __fmul_rn(fabsf(value), sizes[j]);
    return !(score < at_least);  // true for NaN
  };
  find_bits(n_tokens, n_neurons, any, matters,
            [&](int t, int64_t word, uint64_t bits) { wanted[t * n_words + word] = bits; });
}

}  // namespace

size_t select_scratch_bytes(int64_t n_neurons) { return static_cast<size_t>((n_neurons + 63) / 64) * 8; }

void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
                    const DeviceNeuronSet& set, void* scratch, cudaStream_t stream) {
  if (n_tokens == 0 || n_neurons == 0) return list_bits(nullptr, 0, set.any, stream);
  auto* any = static_cast<uint64_t*>(scratch);
  check(gpu_launch(score_kernel, find_blocks(n_neurons), kListThreads, 0, stream, values, sizes, n_tokens,
                   n_neurons, at_least, set.wanted, any),
        "selecting neurons");
  list_bits(any, n_neurons, set.any, stream);
}

}  // namespace hearth::cuda
