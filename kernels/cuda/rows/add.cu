// out += x, element by element.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) add_kernel(const float* x, int64_t n, float* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = __fadd_rn(out[i], x[i]);
}

}  // namespace

void add(const float* x, int64_t n, float* out, cudaStream_t stream) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch(add_kernel, blocks, kThreads, 0, stream, x, n, out), "adding to the residual stream");
}

}  // namespace hearth::cuda
