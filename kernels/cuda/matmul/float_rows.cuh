// Computes products of float weights in chains. All kernels that multiply by float weights share this code.
// matmul_floats.cu describes it.
#pragma once

#include "kernels/cuda/matmul/float_weights.cuh"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// The number of chains of a sum. Each lane computes one chain.
inline constexpr int kChains = 16;

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

/// Computes the products of rows[r] and x[t] in 16 lanes, and calls store(r, t, product) for each product in
/// one of these lanes. chain: the lane's number among the 16. All lanes of a warp must call this.
template <class Load, int kRows, int kTokens, class Store>
__device__ __forceinline__ void multiply_floats(const uint8_t* const (&rows)[kRows],
                                                const float* const (&x)[kTokens], int64_t n_cols, int chain,
                                                const Store& store) {
  static_assert(kTokens <= kChains);
  float acc[kRows][kTokens] = {}, w[kRows], xs[kTokens];
  const int64_t whole = n_cols / kChains * kChains;
  // Unrolling hides the latency of loads. For one token, 8 iterations with 2 loads each are in flight; for
  // eight tokens, 2 iterations with 10 loads each.
#pragma unroll(kRows* kTokens == 1 ? 8 : 2)
  for (int64_t column = chain; column < whole; column += kChains) {
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) w[r] = Load::at(rows[r], column);
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) xs[t] = __ldg(x[t] + column);
    add_products(w, xs, acc);
  }
  if (whole < n_cols) {  // chains beyond the end add a product of zeros, like masked lanes on the CPU
    const bool inside = whole + chain < n_cols;
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
      if (chain == t) store(r, t, sum);
    }
  }
}

}  // namespace hearth::cuda
