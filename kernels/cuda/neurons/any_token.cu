// Which neurons any token wants.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    any_token_kernel(const uint64_t* wanted, int n_tokens, int64_t n_words, uint64_t* any) {
  const int64_t word = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (word >= n_words) return;
  uint64_t bits = 0;
  for (int t = 0; t < n_tokens; ++t) bits |= wanted[t * n_words + word];
  any[word] = bits;
}

}  // namespace

void any_token(const DeviceNeuronSet& set, uint64_t* any, cudaStream_t stream) {
  const int64_t n_words = (set.n_neurons + 63) / 64;
  if (n_words == 0) return;
  const auto blocks = static_cast<unsigned>((n_words + kThreads - 1) / kThreads);
  check(gpu_launch(any_token_kernel, blocks, kThreads, 0, stream, set.wanted, set.n_tokens, n_words, any),
        "joining the tokens' neurons");
}

}  // namespace hearth::cuda
