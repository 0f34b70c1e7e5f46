// F32, F16 and BF16 weights times float activations, in the order of the CPU's vector kernels
// (kernels/cpu/simd/matmul_float.h): 16 chains of fused multiply-adds by column modulo 16, folded in halves.
//
// 16 lanes compute a row and token, one chain each, so that they read neighboring columns. A single token is
// limited by the weights' bytes; with many tokens, a lane's two rows and eight tokens share loads.
#include "kernels/cuda/matmul/float_weights.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/kernel_class.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kChains = 16;
constexpr int kGroups = kThreads / kChains;

// acc[r][t] += w[r] * x[t].
template <int kRows, int kTokens>
__device__ __forceinline__ void add_products(const float (&w)[kRows], const float (&x)[kTokens],
                                             float (&acc)[kRows][kTokens]) {
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) acc[r][t] = __fmaf_rn(w[r], x[t], acc[r][t]);
  }
}

template <class Load, int kRows, int kTokens>
__global__ void __launch_bounds__(kThreads) float_kernel(MatmulArgs args, HeadSteps steps) {
  const int64_t n_places = args.n_places();
  if (int64_t{blockIdx.x} * kGroups * kRows >= n_places) return;
  const int chain = static_cast<int>(threadIdx.x) % kChains;
  const int64_t first = (int64_t{blockIdx.x} * kGroups + static_cast<int>(threadIdx.x) / kChains) * kRows;
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  const uint8_t* rows[kRows];  // rows and tokens beyond the last ones repeat the last one; their results are
                               // not stored
  const float* x[kTokens];
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) rows[r] = args.row_begin(min(first + r, n_places - 1)) + steps.to_weights();
  GPU_UNROLL
  for (int t = 0; t < kTokens; ++t)
    x[t] = args.x + steps.to_x() + min(first_token + t, args.n_tokens - 1) * args.x_stride;

  float acc[kRows][kTokens] = {}, w[kRows], xs[kTokens];
  const int64_t whole = args.n_cols / kChains * kChains;
  // Loads in flight at once, to hide their latency: 2 x 8 for one token, 2 x 10 for eight.
#pragma unroll(kRows* kTokens == 1 ? 8 : 2)
  for (int64_t column = chain; column < whole; column += kChains) {
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) w[r] = Load::at(rows[r], column);
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) xs[t] = __ldg(x[t] + column);
    add_products(w, xs, acc);
  }
  if (whole < args.n_cols) {  // chains beyond the end add a product of zeros, as masked lanes do
    const bool inside = whole + chain < args.n_cols;
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) w[r] = inside ? Load::at(rows[r], whole + chain) : 0.0f;
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) xs[t] = inside ? __ldg(x[t] + whole + chain) : 0.0f;
    add_products(w, xs, acc);
  }
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      float sum = acc[r][t];
      GPU_UNROLL
      for (int apart = kChains / 2; apart > 0; apart /= 2) {
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, apart, kChains));
      }
      if (chain == t && first + r < n_places && first_token + t < args.n_tokens) {
        args.store(first_token + t, first + r, sum, steps.to_out());
      }
    }
  }
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
