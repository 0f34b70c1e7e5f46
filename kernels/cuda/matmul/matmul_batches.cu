// Products of quantized weights with a batch of 5 to 16 tokens, on the tensor cores: the decode steps of many
// conversations, and drafts that are verified. Up to three products with the same x share a launch.
//
// The arithmetic is that of matmul_prompts.cu. A thread block computes 32 rows and 16 tokens. Its four warps
// divide the columns among themselves in spans of 32, so that even a matrix with few rows occupies the whole
// device. They write the results of four spans to shared memory; then each thread adds the results of its row
// and tokens in ascending order of the spans.
//
// Packed weights and quants are copied to shared memory in pieces of 16 bytes, while the stage before is
// multiplied. A lane unpacks the eight weights of a span that the tensor cores expect from it, so a weight is
// unpacked once for all tokens, and only in registers. Rows need not begin at multiples of 16 bytes: the
// copies begin at the multiple before, and a stage remembers how far its first weight block is from it.
//
// For a span of 32 rows, the warps execute about 300 instructions (Q4_0, counted in the code for sm_90): 96
// to multiply and to write the results, and the others to copy, to unpack and to add. The kernel for few
// tokens takes about 590 for 16 tokens, and reads the weights four times. A consumer GPU reads the 576 bytes
// of the span in about the same time; on an H100, instructions are the limit.
#include <algorithm>
#include <array>

#include "kernels/cuda/matmul/batch_spans.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/matmul/token_tiles.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kBatchRows = 32, kBatchWarps = 4, kBatchThreads = 32 * kBatchWarps;
constexpr int kRowCopiers = kBatchThreads / kBatchRows;  // threads that copy a row's weights

/// What a thread block holds of one stage.
template <class Block>
struct __align__(16) BatchStage {
  static constexpr int kGroups = Span<Block>::kGroups;
  static constexpr int kBlockSpans = Block::kElems / kSpan;
  static constexpr int kSpans = kBlockSpans > kBatchWarps ? kBlockSpans : kBatchWarps;  // 4 or 8
  static constexpr int kPieces = 2 * kSpans;  // 16-byte pieces of a token's quants
  static constexpr int kRowBytes = kSpans / kBlockSpans * static_cast<int>(sizeof(Block));
  // A row takes an odd number of 16-byte units, so that the same word of eight rows is in different banks.
  // The units also hold the bytes before the first weight block, at most 14, and those that shared_word()
  // reads after the last one.
  static constexpr int kUnits = (14 + kRowBytes + 2 + 15) / 16 | 1;
  static constexpr int kPitch = 16 * kUnits;

  uint8_t weights[kBatchRows * kPitch];
  uint4 quants[2][kBatchTokens * kPieces];               // high, low
  __align__(8) float quant_scale[kSpans][kBatchTokens];  // read in pairs
  __align__(8) float sum[Block::kHasMin ? kSpans : 1][kGroups][Block::kHasMin ? kBatchTokens : 1];
  // Bytes before the first weight block of row 8 * i + g: shift[g][i]. A lane needs those of four rows.
  __align__(16) int shift[8][kBatchRows / 8];

  /// Returns the index of a token's piece; see place_of().
  static __device__ __forceinline__ int place(int token, int piece) {
    return token * kPieces + (piece ^ (token % 8));
  }
};

/// The results of kBatchWarps spans: [token / 8][row][token % 8].
using BatchTerms = float[kBatchWarps][kBatchRows * kBatchTokens];

/// Copies stages to shared memory. Each thread copies the same pieces of every stage, so its addresses are
/// computed once. A thread copies a quarter of a row's weights.
template <class Block>
class StageLoader {
 public:
  using Stage = BatchStage<Block>;

  /// row: the row of the weights that this thread helps to copy. input_row(t): the row of `quantized` of
  /// token t of the tile.
  template <class InputRow>
  __device__ __forceinline__ StageLoader(const uint8_t* row, const QuantizedActivations& quantized,
                                         int64_t n_cols, const InputRow& input_row)
      : weights_(row) {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t row_spans = n_cols / kSpan;
    GPU_UNROLL
    for (int i = 0; i < kCopies; ++i) {
      const int t = token_of(i);
      const int64_t from = input_row(t) * n_cols + 16 * (thread % Stage::kPieces);
      high_[i] = quantized.high + from;
      low_[i] = quantized.low + from;
    }
    const int64_t span =
        input_row(min(thread / Stage::kSpans, kBatchTokens - 1)) * row_spans + thread % Stage::kSpans;
    scale_ = quantized.scale + span;
    half_sum_ = gpu_aligned<const int2>(quantized.half_sum) + span;
  }

  /// Begins to copy spans [begin, begin + n_spans).
  __device__ __forceinline__ void bring(int begin, int n_spans, Stage& stage) const {
    const int thread = static_cast<int>(threadIdx.x), r = thread / kRowCopiers, first = thread % kRowCopiers;
    const uint8_t* from = weights_ + begin / Stage::kBlockSpans * static_cast<int>(sizeof(Block));
    const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(from) % 16);
    const int n_bytes = shift + n_spans / Stage::kBlockSpans * static_cast<int>(sizeof(Block));
    if (first == 0) stage.shift[r % 8][r / 8] = shift;
    GPU_UNROLL
    for (int i = 0; i < (Stage::kUnits + kRowCopiers - 1) / kRowCopiers; ++i) {
      const int at = 16 * (first + i * kRowCopiers);
      if (at >= n_bytes) break;
      gpu_cp_async_part(&stage.weights[r * Stage::kPitch + at], from - shift + at, min(16, n_bytes - at));
    }
    const int piece = thread % Stage::kPieces;
    if (piece / 2 < n_spans) {
      GPU_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        const int t = token_of(i);
        if (t >= kBatchTokens) break;
        gpu_cp_async16(&stage.quants[0][Stage::place(t, piece)], high_[i] + int64_t{begin} * kSpan);
        gpu_cp_async16(&stage.quants[1][Stage::place(t, piece)], low_[i] + int64_t{begin} * kSpan);
      }
    }
    const int s = thread % Stage::kSpans, t = thread / Stage::kSpans;
    if (t >= kBatchTokens || s >= n_spans) return;
    stage.quant_scale[s][t] = __ldg(scale_ + begin);
    if constexpr (Block::kHasMin) {
      const int2 sums = __ldg(half_sum_ + begin);
      if constexpr (Stage::kGroups == 1) {
        stage.sum[s][0][t] = __int2float_rn(sums.x + sums.y);
      } else {
        stage.sum[s][0][t] = __int2float_rn(sums.x);
        stage.sum[s][1][t] = __int2float_rn(sums.y);
      }
    }
  }

 private:
  static constexpr int kTokensAtOnce =
      kBatchThreads / Stage::kPieces;  // tokens whose pieces are copied at once
  static constexpr int kCopies = (kBatchTokens + kTokensAtOnce - 1) / kTokensAtOnce;
  static_assert(Stage::kSpans * kBatchTokens <= kBatchThreads);

  static __device__ __forceinline__ int token_of(int copy) {
    return static_cast<int>(threadIdx.x) / Stage::kPieces + copy * kTokensAtOnce;
  }

  const uint8_t* weights_;
  const int8_t* high_[kCopies];
  const int8_t* low_[kCopies];
  const float* scale_;
  const int2* half_sum_;
};

/// Multiplies span s of the stage in all rows with all tokens, and writes the results.
template <class Block>
__device__ __forceinline__ void multiply_span(const BatchStage<Block>& stage, int s,
                                              float (&terms)[kBatchRows * kBatchTokens]) {
  using Stage = BatchStage<Block>;
  constexpr int kGroups = Stage::kGroups;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, q = lane % 4;
  const int k = s % Stage::kBlockSpans;
  // 1. Unpack this lane's weights of rows g, g + 8, g + 16 and g + 24. Lane q of a row's four lanes computes
  //    the factors of row g + 8q.
  const uint8_t* block =
      stage.weights + g * Stage::kPitch + s / Stage::kBlockSpans * static_cast<int>(sizeof(Block));
  const int4 shift = *gpu_aligned<int4>(stage.shift[g]);
  const int shifts[4] = {shift.x, shift.y, shift.z, shift.w};
  unsigned a[2][4];
  float scale[2][kGroups][2], mins[2][kGroups][2] = {};
  const SpanFactors<Block> own = load_factors<Block>(block + 8 * q * Stage::kPitch + stage.shift[g][q], k);
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int m = i / 2, h = i % 2;
    const SpanPart part = span_part<Block>(block + 8 * i * Stage::kPitch + shifts[i], k, q);
    a[m][h] = without_offset<kStoredOffset<Block>>(part.words[0]);
    a[m][2 + h] = without_offset<kStoredOffset<Block>>(part.words[1]);
    GPU_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      scale[m][group][h] = __shfl_sync(0xffffffffu, own.scale[group], i, 4);
      if constexpr (Block::kHasMin) mins[m][group][h] = __shfl_sync(0xffffffffu, own.min[group], i, 4);
    }
  }
  // 2. Multiply them with 8 tokens at a time, as add_span() does.
  GPU_UNROLL
  for (int n = 0; n < kBatchTokens / 8; ++n) {
    unsigned quants[4];  // two words of high bytes, two words of low bytes
    gpu_load_matrices(quants, &stage.quants[lane / 16][Stage::place(8 * n + lane % 8, 2 * s + lane / 8 % 2)]);
    const int token = 8 * n + 2 * q;
    const float2 by = *gpu_aligned<float2>(&stage.quant_scale[s][token]);
    GPU_UNROLL
    for (int m = 0; m < 2; ++m) {
      float dots[4] = {};
      GPU_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        int highs[4], lows[4];
        multiply_group<Block>(a[m], quants, quants + 2, group, highs, lows);
        float2 sum{};
        if constexpr (Block::kHasMin) sum = *gpu_aligned<float2>(&stage.sum[s][group][token]);
        GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          float term = __fmul_rn(joined(highs[i], lows[i]), scale[m][group][i / 2]);
          if constexpr (Block::kHasMin) {
            term = __fadd_rn(term, __fmul_rn(mins[m][group][i / 2], i % 2 == 0 ? sum.x : sum.y));
          }
          dots[i] = group == 0 ? term : __fadd_rn(dots[i], term);
        }
      }
      GPU_UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row = 16 * m + 8 * h + g;
        *gpu_aligned<float2>(&terms[(n * kBatchRows + row) * 8 + 2 * q]) = {__fmul_rn(dots[2 * h], by.x),
                                                                            __fmul_rn(dots[2 * h + 1], by.y)};
      }
    }
  }
}

// The second launch bound makes ptxas use at most 102 registers per thread (128 for types with two groups),
// so that five (four) thread blocks share a multiprocessor.
template <class Block>
__global__ void __launch_bounds__(kBatchThreads, Span<Block>::kGroups == 1 ? 5 : 4)
    batch_kernel(ProductRun run) {
  using Stage = BatchStage<Block>;
  constexpr int kSums = kBatchRows * kBatchTokens / kBatchThreads;  // sums of a thread
  __shared__ Stage stages[2];
  __shared__ __align__(16) BatchTerms terms;
  int64_t block = blockIdx.x;
  const MatmulArgs args = run.of_block(block);
  const int64_t n_places = args.n_places(), first_place = block * kBatchRows;
  if (first_place >= n_places) return;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  // If the tile extends beyond the last row or token, the excess rows and tokens repeat the last one.
  const uint8_t* own_row = args.row_begin(min(first_place + thread / kRowCopiers, n_places - 1));
  const int n_spans = static_cast<int>(args.n_cols / kSpan);
  const StageLoader<Block> loader(own_row, args.quantized, args.n_cols,
                                  [&](int t) { return int64_t{min(t, args.n_tokens - 1)}; });
  const auto bring = [&](int begin) {
    loader.bring(begin, min(Stage::kSpans, n_spans - begin), stages[begin / Stage::kSpans % 2]);
    gpu_cp_async_commit();
  };
  float sums[kSums] = {};
  if (n_spans > 0) bring(0);
  for (int begin = 0; begin < n_spans; begin += Stage::kSpans) {
    gpu_cp_async_wait<0>();
    for (int first = 0; first < min(Stage::kSpans, n_spans - begin); first += kBatchWarps) {
      const int n = min(kBatchWarps, n_spans - begin - first);
      __syncthreads();  // the stage is complete, the other stage is free, and the terms have been added
      if (first == 0 && begin + Stage::kSpans < n_spans) bring(begin + Stage::kSpans);
      if (warp < n) multiply_span(stages[begin / Stage::kSpans % 2], first + warp, terms[warp]);
      __syncthreads();
      for (int s = 0; s < n; ++s) {
        const float4 term = *gpu_aligned<float4>(&terms[s][kSums * thread]);
        sums[0] = __fadd_rn(sums[0], term.x);
        sums[1] = __fadd_rn(sums[1], term.y);
        sums[2] = __fadd_rn(sums[2], term.z);
        sums[3] = __fadd_rn(sums[3], term.w);
      }
    }
  }
  const int at = kSums * thread, row = at % (8 * kBatchRows) / 8;
  const int token = at / (8 * kBatchRows) * 8 + at % 8;
  if (first_place + row >= n_places) return;
  GPU_UNROLL
  for (int i = 0; i < kSums; ++i) {
    if (token + i < args.n_tokens) args.store(token + i, first_place + row, sums[i]);
  }
}

template <class Block>
void launch(std::span<const MatmulOp> ops, cudaStream_t stream) {
  std::array<MatmulOp, kMostProducts> kept;
  std::copy(ops.begin(), ops.end(), kept.begin());
  int64_t blocks;
  const ProductRun run = run_of(ops, kBatchRows, blocks);
  check(gpu_launch([kept, n = ops.size()] { return batch_work(std::span(kept).first(n)); },
                   gpu_kernel<batch_kernel<Block>>, dim3(static_cast<unsigned>(blocks)), kBatchThreads, 0,
                   stream, run),
        "multiplying a batch of tokens with a quantized matrix");
}

}  // namespace

void launch_batch(std::span<const MatmulOp> ops, cudaStream_t stream) {
  visit_device_block_type(ops[0].weight.dtype, [&]<class Block>() { launch<Block>(ops, stream); });
}

}  // namespace hearth::cuda
