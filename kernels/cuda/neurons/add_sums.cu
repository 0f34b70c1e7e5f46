// Adds the integer sums over neurons, as floats, to the residual stream.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

/// Block (b, t): 256 columns of token t.
__global__ void __launch_bounds__(kThreads) add_sums_kernel(const int64_t* sums, const int32_t* poison,
                                                            const float* bias, int64_t n_cols, float* out) {
  const int64_t t = blockIdx.y, c = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= n_cols) return;
  const int64_t i = t * n_cols + c;
  float sum = __fmul_rn(__ll2float_rn(sums[i]), 0x1p-36f);  // a power of two: exact
  if (poison[t] != 0) sum = __uint_as_float(0x7fc00000u);
  const float total = __fadd_rn(out[i], sum);
  out[i] = bias == nullptr ? total : __fadd_rn(total, bias[c]);
}

}  // namespace

void add_sums(const NeuronSums& sums, const float* bias, int n_tokens, int64_t n_cols, float* out,
              cudaStream_t stream) {
  if (n_tokens == 0 || n_cols == 0) return;
  const auto blocks = static_cast<unsigned>((n_cols + kThreads - 1) / kThreads);
  check(gpu_launch(add_sums_kernel, dim3(blocks, static_cast<unsigned>(n_tokens)), kThreads, 0, stream,
                   sums.sums, sums.poison, bias, n_cols, out),
        "adding sums over neurons to the residual stream");
}

}  // namespace hearth::cuda
