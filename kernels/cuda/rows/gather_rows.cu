// Row i of `out` = row rows[i] of `x`. This gathers the tokens of a step whose logits are needed.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

// The grid is [pieces of a row, rows]. If there are more rows than a grid dimension allows, thread blocks
// process further rows in turn.
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const float* x, int64_t n_cols, const int32_t* rows, int64_t n, float* out) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= n_cols) return;
  for (int64_t i = blockIdx.y; i < n; i += gridDim.y) {
    out[i * n_cols + column] = x[rows[i] * n_cols + column];
  }
}

}  // namespace

void gather_rows(const float* x, int64_t n_cols, const int32_t* rows, int64_t n, float* out,
                 cudaStream_t stream) {
  if (n == 0 || n_cols == 0) return;
  constexpr int64_t kMostRows = 65535;  // limit of a grid dimension
  const dim3 grid(static_cast<unsigned>((n_cols + kThreads - 1) / kThreads),
                  static_cast<unsigned>(n < kMostRows ? n : kMostRows));
  check(gpu_launch([=] { return KernelWork{.bytes = 2 * floats(n * n_cols)}; }, gpu_kernel<gather_kernel>,
                   grid, kThreads, 0, stream, x, n_cols, rows, n, out),
        "gathering rows");
}

}  // namespace hearth::cuda
