// Adds one device's sums over neurons to another's.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    merge_sums_kernel(const int64_t* from, const int32_t* poison_from, int64_t n, int n_tokens,
                      const int32_t* any, int64_t* to, int32_t* poison_to) {
  if (any != nullptr && *any == 0) return;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) to[i] += from[i];
  if (i < n_tokens) poison_to[i] |= poison_from[i];
}

}  // namespace

void merge_sums(const NeuronSums& from, int n_tokens, int64_t n_cols, const NeuronSums& to,
                cudaStream_t stream, const int32_t* any) {
  const int64_t n = n_tokens * n_cols;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch(merge_sums_kernel, blocks, kThreads, 0, stream, from.sums, from.poison, n, n_tokens, any,
                   to.sums, to.poison),
        "adding the CPU's share of the neurons");
}

}  // namespace hearth::cuda
