// Computes the products of 8 rows of quantized weights with up to 4 tokens in a thread block. All kernels
// that multiply few tokens share this code. matmul_few.cu describes it.
#pragma once

#include "kernels/cuda/matmul/span_products.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

inline constexpr int kFewThreads = 128;
inline constexpr int kFewRows = 8;
inline constexpr int kFewBatch = 4;  // number of rows whose weights a thread holds at a time

/// Returns the number of threads for rows of n_spans spans. It is at least one warp, because the threads of a
/// warp add up the results.
inline unsigned few_threads(int64_t n_spans) {
  const int64_t threads = n_spans <= 32 ? 32 : (n_spans + 31) / 32 * 32;
  return static_cast<unsigned>(threads < kFewThreads ? threads : kFewThreads);
}

/// The results of a thread block's spans.
template <int kTokens>
struct __align__(16) FewResults {
  // The number of spans whose results are in shared memory at a time. These results take 16 KB. For one
  // token, this is enough for all spans of a row of 16384 columns.
  static constexpr int kSpans = 512 / kTokens;
  // Floats from one row of results to the next. The 4 extra floats keep rows aligned to 16 bytes, and shift
  // each row by 4 banks, so that 16 bytes of each of eight rows cover all 32 banks.
  static constexpr int kPitch = kSpans + 4;
  float of[kFewRows * kTokens][kPitch];
};

/// Loads the quants of span s of an input row.
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

/// Computes the products of the rows with n_tokens tokens. Every thread below kFewRows * n_tokens gets one
/// product: row rows[thread % kFewRows] times token thread / kFewRows. input_row(t) returns the row of
/// `quantized` for token t, and may be called in any thread.
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
