// Multiplies a span of 32 quantized weights by the activations of a token, with byte products (dp4a). All
// kernels for few tokens use this arithmetic.
#pragma once

#include "kernels/cuda/matmul/blocks.cuh"

namespace hearth::cuda {

// One token's quants for a span.
struct SpanQuants {
  uint4 high[2], low[2];
  int2 half_sum;
  float scale;
};

__device__ __forceinline__ int dot_16(const unsigned* weights, const uint4& quants) {
  int sum = __dp4a(static_cast<int>(weights[0]), static_cast<int>(quants.x), 0);
  sum = __dp4a(static_cast<int>(weights[1]), static_cast<int>(quants.y), sum);
  sum = __dp4a(static_cast<int>(weights[2]), static_cast<int>(quants.z), sum);
  return __dp4a(static_cast<int>(weights[3]), static_cast<int>(quants.w), sum);
}

// Returns the term of a group, as defined in kernels/cpu/isa/matmul_kernels.h. high, low: the products of the
// stored weights with the two byte planes. sum: the sum of the quants.
template <class Block>
__device__ __forceinline__ float group_term(int high, int low, int sum, float scale, float min) {
  // Bounds: kernels/cpu/isa/activation_row.h.
  int products = 256 * high + low;
  if constexpr (kStoredOffset<Block> != 0) products -= kStoredOffset<Block> * sum;
  float term = __fmul_rn(__int2float_rn(products), scale);
  if constexpr (Block::kHasMin) term = __fadd_rn(term, __fmul_rn(min, __int2float_rn(sum)));
  return term;
}

template <class Block>
__device__ __forceinline__ float span_product(const Span<Block>& w, const SpanQuants& q) {
  int high[2], low[2];
  GPU_UNROLL
  for (int half = 0; half < 2; ++half) {
    high[half] = dot_16(w.words + 4 * half, q.high[half]);
    low[half] = dot_16(w.words + 4 * half, q.low[half]);
  }
  if constexpr (Span<Block>::kGroups == 1) {
    return __fmul_rn(group_term<Block>(high[0] + high[1], low[0] + low[1], q.half_sum.x + q.half_sum.y,
                                       w.scale[0], w.min[0]),
                     q.scale);
  } else {
    const float first = group_term<Block>(high[0], low[0], q.half_sum.x, w.scale[0], w.min[0]);
    const float second = group_term<Block>(high[1], low[1], q.half_sum.y, w.scale[1], w.min[1]);
    return __fmul_rn(__fadd_rn(first, second), q.scale);
  }
}

// Returns sum + values[0] + values[1] + ..., added in this order.
__device__ __forceinline__ float add_in_order(float sum, const float* values, int n) {
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    const float4 v = *gpu_aligned<float4>(values + i);
    sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, v.x), v.y), v.z), v.w);
  }
  for (; i < n; ++i) sum = __fadd_rn(sum, values[i]);
  return sum;
}

}  // namespace hearth::cuda
