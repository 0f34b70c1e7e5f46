// A thread block's products of 8 rows of quantized weights with up to 4 tokens: the code of matmul_few.cu,
// which describes it, for all kernels that multiply few tokens.
#pragma once

#include "kernels/cuda/matmul/span_products.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

inline constexpr int kFewThreads = 128;
inline constexpr int kFewRows = 8;
inline constexpr int kFewBatch = 4;  // rows whose weights a thread holds at a time

/// Threads for rows of n_spans spans: at least one warp, because a warp sums the results.
inline unsigned few_threads(int64_t n_spans) {
  const int64_t threads = n_spans <= 32 ? 32 : (n_spans + 31) / 32 * 32;
  return static_cast<unsigned>(threads < kFewThreads ? threads : kFewThreads);
}

/// The results of a thread block's spans.
template <int kTokens>
struct __align__(16) FewResults {
  // How many spans' results are in shared memory at a time, 16 KB: rows of up to 16384 columns for one token.
  static constexpr int kSpans = 512 / kTokens;
  // Floats from one row of results to the next: 16-byte aligned, so that 16 bytes of each of eight rows cover
  // all 32 banks.
  static constexpr int kPitch = kSpans + 4;
  float of[kFewRows * kTokens][kPitch];
};

/// The quants of span s of an input row.
__device__ __forceinline__ SpanQuants load_quants(const QuantizedActivations& q, int64_t n_cols, int row,
                                                  int s) {
  const int64_t span = row * (n_cols / kSpan) + s;
  const auto* high = gpu_aligned<uint4>(q.high) + 2 * span;
  const auto* low = gpu_aligned<uint4>(q.low) + 2 * span;
  return {{__ldg(high), __ldg(high + 1)},
          {__ldg(low), __ldg(low + 1)},
          __ldg(gpu_aligned<int2>(q.half_sum) + span),
          __ldg(q.scale + span)};
}

/// Returns the product of rows[thread % kFewRows] with token thread / kFewRows, to the threads below kFewRows
/// * n_tokens. input_row(t): the row of `quantized` that token t reads, in any thread.
template <class Block, int kAlign, int kTokens, class InputRow>
__device__ __forceinline__ float multiply_few(const uint8_t* const (&rows)[kFewRows],
                                              const QuantizedActivations& quantized, int64_t n_cols,
                                              int n_tokens, FewResults<kTokens>& results,
                                              InputRow&& input_row) {
  constexpr int kSpans = FewResults<kTokens>::kSpans;
  const int n_spans = static_cast<int>(n_cols / kSpan);
  const int thread = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  for (int begin = 0; begin < n_spans; begin += kSpans) {
    const int end = min(n_spans, begin + kSpans);
    for (int s = begin + thread; s < end; s += static_cast<int>(blockDim.x)) {
      GPU_UNROLL
      for (int batch = 0; batch < kFewRows; batch += kFewBatch) {
        Span<Block> weights[kFewBatch];
        GPU_UNROLL
        for (int r = 0; r < kFewBatch; ++r) load_span<kAlign>(rows[batch + r], s, weights[r]);
        for (int t = 0; t < n_tokens; ++t) {
          const SpanQuants quants = load_quants(quantized, n_cols, input_row(t), s);
          GPU_UNROLL
          for (int r = 0; r < kFewBatch; ++r) {
            results.of[t * kFewRows + batch + r][s - begin] = span_product(weights[r], quants);
          }
        }
      }
    }
    __syncthreads();
    if (thread < kFewRows * n_tokens) sum = add_in_order(sum, results.of[thread], end - begin);
    if (end < n_spans) __syncthreads();
  }
  return sum;
}

}  // namespace hearth::cuda
