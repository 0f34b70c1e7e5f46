// Adds up a row of floats in the order of the CPU's lanes: see row_sum() in kernels/cpu/lanes/rows_inl.h.
//
// The CPU adds in 64 chains, which are four vectors of 16 lanes. Element i belongs to chain i % 64, but
// elements of the last, partial run of 64 belong to chain i % 16. Then the CPU adds the four vectors
// pairwise. To add up the 16 lanes of the result, it repeatedly adds the upper half of the lanes to the lower
// half. Here, 64 threads of a thread block compute one chain each. All threads of the thread block first copy
// the row to shared memory, because a thread that loaded its chain from global memory would wait for one load
// after the other.
#pragma once

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

inline constexpr int kRowChains = 64;
inline constexpr int kChainLanes = 16;
/// The number of floats of a row that are in shared memory at a time, which take 32 KB. Only very wide models
/// have longer rows. A multiple of 64.
inline constexpr int kRowPiece = 8192;

/// Shared memory of row_sum().
struct RowSumShared {
  float chains[kRowChains];
  float total;
};

/// Returns the number of threads of a thread block that adds up a row of n floats: one per four floats, at
/// least one per chain, and at most 512.
inline int row_threads(int64_t n) {
  const int64_t quarter = (n / 4 + 31) / 32 * 32;
  return static_cast<int>(quarter < kRowChains ? kRowChains : quarter > 512 ? 512 : quarter);
}

/// Bytes of shared memory for a piece of a row of n floats.
inline size_t row_piece_bytes(int64_t n) {
  return static_cast<size_t>(n < kRowPiece ? n : kRowPiece) * sizeof(float);
}

/// Continues the sum of a chain over elements [begin, end) of a row of n elements, and returns it. For each
/// element of the chain in this range, in ascending order, sum = term(sum, value). Element i is piece[i -
/// begin]. REQUIRES: begin is a multiple of 64.
template <class Term>
__device__ __forceinline__ float add_to_chain(const float* piece, int chain, int64_t begin, int64_t end,
                                              int64_t n, float sum, Term&& term) {
  const int64_t whole = n / kRowChains * kRowChains;
  const int stop = static_cast<int>((end < whole ? end : whole) - begin);
  for (int i = chain; i < stop; i += kRowChains) sum = term(sum, piece[i]);
  if (chain >= kChainLanes) return sum;
  for (int64_t i = whole + chain; i < end; i += kChainLanes) sum = term(sum, piece[i - begin]);
  return sum;
}

/// Returns the sum of all chains in every lane. All lanes of a warp must call this.
__device__ __forceinline__ float fold_chains(const float* chains, int lane) {
  const int c = lane % kChainLanes;
  float sum = __fadd_rn(__fadd_rn(chains[c], chains[16 + c]), __fadd_rn(chains[32 + c], chains[48 + c]));
  GPU_UNROLL
  for (int apart = kChainLanes / 2; apart > 0; apart /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, apart, kChainLanes));
  }
  return sum;
}

/// Adds up the row x [n] with sum = term(sum, value), and returns the result in all threads of the thread
/// block. A row with n <= kRowPiece is left in `piece`. there: whether an earlier call left this row in
/// `piece`.
template <class Term>
__device__ float row_sum(const float* x, int64_t n, float* piece, bool there, RowSumShared& shared,
                         Term&& term) {
  const int thread = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  for (int64_t begin = 0; begin < n; begin += kRowPiece) {
    const int64_t end = begin + kRowPiece < n ? begin + kRowPiece : n;
    if (!there || n > kRowPiece) {
      if (begin > 0) __syncthreads();  // wait until the previous piece is summed
      const int count = static_cast<int>(end - begin);
      for (int i = thread; i < count; i += static_cast<int>(blockDim.x)) piece[i] = x[begin + i];
      __syncthreads();
    }
    if (thread < kRowChains) sum = add_to_chain(piece, thread, begin, end, n, sum, term);
  }
  if (thread < kRowChains) shared.chains[thread] = sum;
  __syncthreads();
  if (thread < 32) {
    const float total = fold_chains(shared.chains, thread);
    if (thread == 0) shared.total = total;
  }
  __syncthreads();
  return shared.total;
}

/// 1 / sqrt(squares / n + eps).
__device__ __forceinline__ float norm_scale(float squares, int64_t n, float eps) {
  const float mean = __fdiv_rn(squares, __ll2float_rn(n));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

}  // namespace hearth::cuda
