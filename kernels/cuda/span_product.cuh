// The product of 32 weights with 32 quantised activations, before it joins a row's sum: the arithmetic that
// kernels/cpu/matmul_kernels.h writes down, for matmul_few.cu and matmul_many.cu.
#pragma once

#include "kernels/cuda/blocks.cuh"

namespace hearth::cuda {

/// A group's term. high, low: products of stored weights with the two byte planes; sum: of the quants.
template <class Block>
__device__ __forceinline__ float group_term(int high, int low, int sum, float scale, float min) {
  // Bounds: kernels/cpu/activation_row.h.
  int products = 256 * high + low;
  if constexpr (kStoredOffset<Block> != 0) products -= kStoredOffset<Block> * sum;
  float term = __fmul_rn(__int2float_rn(products), scale);
  if constexpr (Block::kHasMin) term = __fadd_rn(term, __fmul_rn(min, __int2float_rn(sum)));
  return term;
}

/// Whether group_term() reads the sum of quants.
template <class Block>
inline constexpr bool kNeedsSums = Block::kHasMin || kStoredOffset<Block> != 0;

}  // namespace hearth::cuda
