// Products of F32, F16 and BF16 weights with float activations, in the order of the CPU's vector kernels
// (kernels/cpu/simd/matmul_float.h). There are 16 chains of fused multiply-adds. Column c belongs to chain c
// % 16, and in the end the chains are added pairwise: first chains 8 apart, then 4, 2 and 1 apart.
//
// 16 lanes compute the product of a row and a token, one chain each, so that they read neighboring columns.
// With a single token, reading the weights is the limit. With several tokens, a lane computes two rows and
// eight tokens, which share their loads.
#include "kernels/cuda/matmul/float_rows.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/kernel_class.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kGroups = kThreads / kChains;

template <class Load, int kRows, int kTokens>
__global__ void __launch_bounds__(kThreads) float_kernel(MatmulArgs args, HeadSteps steps) {
  const int64_t n_places = args.n_places();
  if (int64_t{blockIdx.x} * kGroups * kRows >= n_places) return;
  const int chain = static_cast<int>(threadIdx.x) % kChains;
  const int64_t first = (int64_t{blockIdx.x} * kGroups + static_cast<int>(threadIdx.x) / kChains) * kRows;
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  const uint8_t* rows[kRows];  // rows and tokens beyond the last one repeat it; their results are not stored
  const float* x[kTokens];
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) rows[r] = args.row_begin(min(first + r, n_places - 1)) + steps.to_weights();
  GPU_UNROLL
  for (int t = 0; t < kTokens; ++t)
    x[t] = args.x + steps.to_x() + min(first_token + t, args.n_tokens - 1) * args.x_stride;

  multiply_floats<Load>(rows, x, args.n_cols, chain, [&](int r, int t, float sum) {
    if (first + r < n_places && first_token + t < args.n_tokens) {
      args.store(first_token + t, first + r, sum, steps.to_out());
    }
  });
}

template <class Load, int kRows, int kTokens>
void launch(const MatmulOp& op, const MatmulArgs& args, cudaStream_t stream, int n_heads,
            const HeadSteps& steps) {
  constexpr int64_t kBlockRows = kGroups * kRows;
  const dim3 grid(static_cast<unsigned>((most_places(op) + kBlockRows - 1) / kBlockRows),
                  static_cast<unsigned>((op.n_tokens + kTokens - 1) / kTokens),
                  static_cast<unsigned>(n_heads));
  check(gpu_launch([=] { return times(n_heads, product_work(op, kTokens, 2, kFloatInstructions)); },
                   gpu_kernel<float_kernel<Load, kRows, kTokens>>, grid, kThreads, 0, stream, args, steps),
        "multiplying with a matrix of floats");
}

}  // namespace

void launch_float(const MatmulOp& op, const MatmulArgs& args, cudaStream_t stream, int n_heads,
                  const HeadSteps& steps) {
  visit_float_type(op.weight.dtype, rows_aligned(op.weight, sizeof(float)), [&]<class Load>() {
    op.n_tokens == 1 ? launch<Load, 1, 1>(op, args, stream, n_heads, steps)
                     : launch<Load, 2, 8>(op, args, stream, n_heads, steps);
  });
}

}  // namespace hearth::cuda
