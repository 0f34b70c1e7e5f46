// Computes the products of quantized weights with a tile of 16, 32 or 64 tokens in a thread block, on the
// tensor cores. All kernels that multiply many tokens share this code. matmul_prompts.cu describes it.
//
// A warp computes 32 rows and up to 32 of the tokens. Tiles of 64 tokens have two warps for every 32 rows,
// and smaller tiles have one.
#pragma once

#include "kernels/cuda/matmul/blocks.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

inline constexpr int kWarpRows = 32, kMostRowWarps = 4, kMostRows = kMostRowWarps * kWarpRows;
inline constexpr int kStageSpans = 2;
inline constexpr int kPieces = 2 * kStageSpans;  // 16-byte pieces per row of a stage
/// The number of thread blocks that keeps large GPUs busy. If a launch would have fewer, its tiles get fewer
/// rows.
inline constexpr int64_t kEnoughBlocks = 256;

/// The division of a tile of tokens among warps and threads.
template <int kTokens>
struct TileShape {
  static constexpr int kWarpTokens = kTokens < 32 ? kTokens : 32;
  static constexpr int kTokenWarps = kTokens / kWarpTokens;
  static constexpr int kRowThreads = 32 * kTokenWarps;  // threads per 32 rows
  // The number of rows for which a thread loads one span per stage.
  static constexpr int kLoads = kWarpRows * kStageSpans / kRowThreads;
};

// Integer sums of byte products start at the bit pattern of this float, not at 0. Neighboring floats from
// 2^23 to 2^24 differ by 1, and the sums stay below 2^20. So the final bit pattern, read as a float, is
// exactly kIntegers + sum.
inline constexpr float kIntegers = 0x1.8p23f;
inline constexpr int kIntegerBits = 0x4b400000;

template <class Block, int kTokens>
struct __align__(16) Stage {
  static constexpr int kGroups = Span<Block>::kGroups;
  uint4 weights[kMostRows * kPieces];
  uint4 quants[2][kTokens * kPieces];                    // high, low
  __align__(8) float quant_scale[kStageSpans][kTokens];  // read in pairs, as the sums are
  __align__(8) float sum[Block::kHasMin ? kStageSpans : 1][kGroups][Block::kHasMin ? kTokens : 1];
  float scale[kStageSpans][kGroups][kMostRows];
  float min[Block::kHasMin ? kStageSpans : 1][kGroups][Block::kHasMin ? kMostRows : 1];
};

// Returns the index of a row's piece in a stage. The pieces are permuted so that one piece of each of eight
// rows, or two pieces of each of four rows, cover all banks.
__device__ __forceinline__ int place_of(int row, int piece) {
  return row * kPieces + (piece ^ (row / 2 % kPieces));
}

// The first row and the first token of a warp's part of the tile.
struct WarpPart {
  int row, token;

  template <int kTokens>
  static __device__ __forceinline__ WarpPart of_thread() {
    using Shape = TileShape<kTokens>;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return {warp / Shape::kTokenWarps * kWarpRows, warp % Shape::kTokenWarps * Shape::kWarpTokens};
  }
};

// Subtracts kOffset, which is at most 128, from each of four bytes, whose values are 0 to 127. No byte
// carries into the next one.
template <int kOffset>
__device__ __forceinline__ unsigned without_offset(unsigned word) {
  if constexpr (kOffset == 0) return word;
  return (word + (0x80 - kOffset) * 0x01010101u) ^ 0x80808080u;
}

template <int kAlign, class Block, int kTokens>
__device__ __forceinline__ void bring_weights(const uint8_t* row_begin, int row, int begin, int n_spans,
                                              Stage<Block, kTokens>& stage) {
  const int s = static_cast<int>(threadIdx.x) % kStageSpans;
  if (s >= n_spans) return;
  Span<Block> span;
  load_span<kAlign>(row_begin, begin + s, span);
  GPU_UNROLL
  for (int k = 0; k < 8; ++k) span.words[k] = without_offset<kStoredOffset<Block>>(span.words[k]);
  const unsigned* w = span.words;
  stage.weights[place_of(row, 2 * s)] = {w[0], w[1], w[2], w[3]};
  stage.weights[place_of(row, 2 * s + 1)] = {w[4], w[5], w[6], w[7]};
  GPU_UNROLL
  for (int g = 0; g < Span<Block>::kGroups; ++g) {
    stage.scale[s][g][row] = span.scale[g];
    if constexpr (Block::kHasMin) stage.min[s][g][row] = span.min[g];
  }
}

template <class Block, int kTokens, class InputRow>
__device__ __forceinline__ void bring_quants(const QuantizedActivations& quantized, int64_t n_cols, int begin,
                                             int n_spans, Stage<Block, kTokens>& stage,
                                             const InputRow& input_row) {
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int64_t row_spans = n_cols / kSpan;
  for (int i = thread; i < 2 * kTokens * kPieces; i += n_threads) {
    const int piece = i % kPieces, t = i / kPieces % kTokens, plane = i / (kPieces * kTokens);
    if (piece / 2 >= n_spans) continue;
    const int8_t* bytes = plane == 0 ? quantized.high : quantized.low;
    const int64_t span = input_row(t) * row_spans + begin;
    gpu_cp_async16(&stage.quants[plane][place_of(t, piece)], gpu_aligned<uint4>(bytes) + 2 * span + piece);
  }
  for (int i = thread; i < kStageSpans * kTokens; i += n_threads) {
    const int s = i % kStageSpans, t = i / kStageSpans;
    if (s >= n_spans) continue;
    const int64_t span = input_row(t) * row_spans + begin + s;
    stage.quant_scale[s][t] = __ldg(quantized.scale + span);
    if constexpr (Block::kHasMin) {
      const int2 sums = __ldg(gpu_aligned<int2>(quantized.half_sum) + span);
      if constexpr (Span<Block>::kGroups == 1) {
        stage.sum[s][0][t] = __int2float_rn(sums.x + sums.y);
      } else {
        stage.sum[s][0][t] = __int2float_rn(sums.x);
        stage.sum[s][1][t] = __int2float_rn(sums.y);
      }
    }
  }
}

// Multiplies the weights of a group (a) by the two bytes of the quants, for 16 rows and 8 tokens. Each lane
// gets its part of the products.
template <class Block>
__device__ __forceinline__ void multiply_group(const unsigned (&a)[4], const unsigned* high,
                                               const unsigned* low, int g, int (&highs)[4], int (&lows)[4]) {
  if constexpr (Span<Block>::kGroups == 1) {
    gpu_multiply_32(highs, a, high[0], high[1], kIntegerBits);
    gpu_multiply_32(lows, a, low[0], low[1], kIntegerBits);
  } else {
    gpu_multiply_16(highs, a[2 * g], a[2 * g + 1], high[g], kIntegerBits);
    gpu_multiply_16(lows, a[2 * g], a[2 * g + 1], low[g], kIntegerBits);
  }
}

// Returns 256 * high + low, rounded once, like the conversion of this integer to a float.
__device__ __forceinline__ float joined(int high, int low) {
  return __fmaf_rn(__fsub_rn(__int_as_float(high), kIntegers), 256.0f,
                   __fsub_rn(__int_as_float(low), kIntegers));
}

// The sums that a lane holds: [m][n][2h + c] is the sum of row 16m + 8h + lane / 4 and token 8n + 2 * (lane %
// 4) + c of its warp.
template <int kTokens>
using WarpSums = float[2][TileShape<kTokens>::kWarpTokens / 8][4];  // [m][n][2h + c]

template <class Block, int kTokens>
__device__ __forceinline__ void add_span(const Stage<Block, kTokens>& stage, int s, const WarpPart& part,
                                         WarpSums<kTokens>& acc) {
  constexpr int kGroups = Span<Block>::kGroups;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = part.row + lane / 4, token = part.token + lane % 4 * 2;
  unsigned a[2][4];
  float scale[2][kGroups][2], mins[2][kGroups][2] = {};
  GPU_UNROLL
  for (int m = 0; m < 2; ++m) {
    gpu_load_matrices(a[m], &stage.weights[place_of(part.row + 16 * m + lane % 16, 2 * s + lane / 16)]);
    GPU_UNROLL
    for (int i = 0; i < 2 * kGroups; ++i) {
      scale[m][i / 2][i % 2] = stage.scale[s][i / 2][row + 16 * m + 8 * (i % 2)];
      if constexpr (Block::kHasMin) mins[m][i / 2][i % 2] = stage.min[s][i / 2][row + 16 * m + 8 * (i % 2)];
    }
  }
  GPU_UNROLL
  for (int pair = 0; pair < TileShape<kTokens>::kWarpTokens / 16; ++pair) {
    unsigned high[4], low[4];  // two words for each of two groups of 8 tokens
    const int place = place_of(part.token + 16 * pair + lane % 8 + lane / 16 * 8, 2 * s + lane / 8 % 2);
    gpu_load_matrices(high, &stage.quants[0][place]);
    gpu_load_matrices(low, &stage.quants[1][place]);
    GPU_UNROLL
    for (int n = 2 * pair; n < 2 * pair + 2; ++n) {
      const float2 by = *gpu_aligned<float2>(&stage.quant_scale[s][token + 8 * n]);
      GPU_UNROLL
      for (int m = 0; m < 2; ++m) {
        float dots[4] = {};
        GPU_UNROLL
        for (int g = 0; g < kGroups; ++g) {
          int highs[4], lows[4];
          multiply_group<Block>(a[m], high + n % 2 * 2, low + n % 2 * 2, g, highs, lows);
          float2 sum{};
          if constexpr (Block::kHasMin) {
            sum = *gpu_aligned<float2>(&stage.sum[s][g][token + 8 * n]);
          }
          GPU_UNROLL
          for (int i = 0; i < 4; ++i) {
            float term = __fmul_rn(joined(highs[i], lows[i]), scale[m][g][i / 2]);
            if constexpr (Block::kHasMin) {
              term = __fadd_rn(term, __fmul_rn(mins[m][g][i / 2], i % 2 == 0 ? sum.x : sum.y));
            }
            dots[i] = g == 0 ? term : __fadd_rn(dots[i], term);
          }
        }
        GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          acc[m][n][i] = __fadd_rn(acc[m][n][i], __fmul_rn(dots[i], i % 2 == 0 ? by.x : by.y));
        }
      }
    }
  }
}

/// Computes the products of a tile: the thread block's rows (kWarpRows for every TileShape::kRowThreads
/// threads) times kTokens tokens. n_rows, n_tokens: the numbers of rows and tokens from the tile's first ones
/// to the matrix's last row and the step's last token; if they are smaller than the tile, the rest of the
/// tile is excess. row_begin(r) returns the address of row r of the tile. input_row(t) returns the index
/// (int64_t) of the row of `quantized` that belongs to token t. Any thread may call these two functions. For
/// excess rows and tokens, they must return a row that can be read. store(t, r, value) stores a product, and
/// must ignore excess rows and tokens. kAlign: as for load_span().
template <class Block, int kAlign, int kTokens, class RowBegin, class InputRow, class Store>
__device__ __forceinline__ void multiply_tile(const QuantizedActivations& quantized, int64_t n_cols,
                                              int64_t n_rows, int n_tokens,
                                              Stage<Block, kTokens> (&stages)[2], const RowBegin& row_begin,
                                              const InputRow& input_row, const Store& store) {
  using Shape = TileShape<kTokens>;
  const int thread = static_cast<int>(threadIdx.x), row_step = static_cast<int>(blockDim.x) / kStageSpans;
  const WarpPart part = WarpPart::of_thread<kTokens>();
  const uint8_t* weights[Shape::kLoads];
  GPU_UNROLL
  for (int i = 0; i < Shape::kLoads; ++i) weights[i] = row_begin(thread / kStageSpans + i * row_step);
  const bool idle = part.row >= n_rows || part.token >= n_tokens;
  const int n_spans = static_cast<int>(n_cols / kSpan);
  const auto bring = [&](int begin) {
    Stage<Block, kTokens>& stage = stages[begin / kStageSpans % 2];
    const int n = min(kStageSpans, n_spans - begin);
    bring_quants(quantized, n_cols, begin, n, stage, input_row);
    gpu_cp_async_commit();
    GPU_UNROLL
    for (int i = 0; i < Shape::kLoads; ++i) {
      bring_weights<kAlign>(weights[i], thread / kStageSpans + i * row_step, begin, n, stage);
    }
  };
  WarpSums<kTokens> acc = {};
  if (n_spans > 0) bring(0);
  for (int begin = 0; begin < n_spans; begin += kStageSpans) {
    gpu_cp_async_wait<0>();
    __syncthreads();  // all threads have loaded this stage and multiplied the previous one
    if (begin + kStageSpans < n_spans) bring(begin + kStageSpans);
    if (idle) continue;
    for (int s = 0; s < min(kStageSpans, n_spans - begin); ++s) {
      add_span(stages[begin / kStageSpans % 2], s, part, acc);
    }
  }
  const int lane = thread % 32;
  GPU_UNROLL
  for (int i = 0; i < 8 * (Shape::kWarpTokens / 8); ++i) {
    const int m = i / (Shape::kWarpTokens / 2), n = i / 4 % (Shape::kWarpTokens / 8), h = i / 2 % 2;
    const int row = part.row + 16 * m + 8 * h + lane / 4;
    const int token = part.token + 8 * n + lane % 4 * 2 + i % 2;
    store(token, row, acc[m][n][i % 4]);
  }
}

}  // namespace hearth::cuda
