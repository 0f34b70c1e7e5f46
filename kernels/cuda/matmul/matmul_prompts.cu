// Quantized weights times many tokens, for prompts. Runs on tensor cores and gives the bits of every other
// kernel.
//
// A quant is two bytes, q = 256 * high + low. So a span of 32 columns is two products of bytes on the tensor
// cores (four of half the length for types with two groups per span), with exact int32 sums. The float
// operations that follow are those of the CPU, in the same order.
//
// A thread block has a tile of 32 to 128 rows and 64 tokens, and a warp has 32 x 32 of it. A warp's sums over
// spans stay in registers, so they are added in ascending order. Two spans at a time are copied to shared
// memory, with unpacked weights and subtracted offsets, while the previous two are multiplied.
//
// Limits, per span of a row and token. Operations: 64 byte products, which take 2 / 64 of a cycle of a
// multiprocessor of compute capability 8.0 and 8 / 128 of one of 8.6 and 8.9 (2048 and 1024 per cycle: peak
// rates divided by clock and multiprocessors); 6 float operations (9 with mins, 11 and 17 for two groups),
// which take 6 / 64 and 6 / 128 of a cycle. So floats are the limit on 8.0, bytes on 8.6 and 8.9. Memory:
// weights once per 64 tokens, unpacked, and activations of 2.4 bytes per column once per 128 rows, both
// mostly from the L2 cache, because thread blocks that run at the same time share weights. For 4.5 bits that
// is one byte per 75 byte products.
#include "kernels/cuda/matmul/blocks.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kWarpRows = 32, kWarpTokens = 32;
constexpr int kTokenWarps = 2, kMostRowWarps = 4;
constexpr int kTileTokens = kTokenWarps * kWarpTokens, kMostRows = kMostRowWarps * kWarpRows;
constexpr int kRowThreads = 32 * kTokenWarps;  // for 32 rows: each loads one span of one row
constexpr int kStageSpans = 2;
constexpr int kPieces = 2 * kStageSpans;  // 16-byte pieces per row of a stage
/// The number of thread blocks that keeps large GPUs busy; with fewer, tiles get fewer rows.
constexpr int64_t kEnoughBlocks = 256;

static_assert(kRowThreads == kWarpRows * kStageSpans);

// Sums of byte products start at the bit pattern of this float, so that they are exact floats themselves:
// they stay below 2^20, and the lowest bit of a float from 2^23 to 2^24 stands for 1.
constexpr float kIntegers = 0x1.8p23f;
constexpr int kIntegerBits = 0x4b400000;

template <class Block>
struct __align__(16) Stage {
  static constexpr int kGroups = Span<Block>::kGroups;
  uint4 weights[kMostRows * kPieces];
  uint4 quants[2][kTileTokens * kPieces];                    // high, low
  __align__(8) float quant_scale[kStageSpans][kTileTokens];  // read in pairs, as the sums are
  __align__(8) float sum[Block::kHasMin ? kStageSpans : 1][kGroups][Block::kHasMin ? kTileTokens : 1];
  float scale[kStageSpans][kGroups][kMostRows];
  float min[Block::kHasMin ? kStageSpans : 1][kGroups][Block::kHasMin ? kMostRows : 1];
};

// The index of a row's piece. One piece of each of eight rows, or two pieces of each of four rows, cover all
// banks.
__device__ __forceinline__ int place_of(int row, int piece) {
  return row * kPieces + (piece ^ (row / 2 % kPieces));
}

// What a thread loads, and where its warp's part of the tile begins.
struct Part {
  const uint8_t* weights;  // of the row that it loads
  int row, token;
  int first_token, last_token;
};

// Subtracts an offset of at most 128 from each of four bytes, which are 0 to 127.
template <int kOffset>
__device__ __forceinline__ unsigned without_offset(unsigned word) {
  if constexpr (kOffset == 0) return word;
  return ((word | 0x80808080u) - kOffset * 0x01010101u) ^ 0x80808080u;
}

template <class Block>
__device__ __forceinline__ void bring_weights(const uint8_t* row_begin, int begin, int n_spans,
                                              Stage<Block>& stage) {
  const int s = static_cast<int>(threadIdx.x) % kStageSpans;
  const int row = static_cast<int>(threadIdx.x) / kStageSpans;
  if (s >= n_spans) return;
  Span<Block> span;
  // Alignment to two bytes covers all matrices: with 64 tokens the loads are few compared with the products.
  load_span<2>(row_begin, begin + s, span);
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

// The quantized row of the tile's token t; with heads, each head's rows follow those of the previous head.
__device__ __forceinline__ int activation_row(const MatmulArgs& args, const Part& part, int t) {
  return static_cast<int>(blockIdx.z) * args.n_tokens + min(part.first_token + t, part.last_token);
}

template <class Block>
__device__ __forceinline__ void bring_quants(const MatmulArgs& args, const Part& part, int begin, int n_spans,
                                             Stage<Block>& stage) {
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int64_t row_spans = args.n_cols / kSpan;
  for (int i = thread; i < 2 * kTileTokens * kPieces; i += n_threads) {
    const int piece = i % kPieces, t = i / kPieces % kTileTokens, plane = i / (kPieces * kTileTokens);
    if (piece / 2 >= n_spans) continue;
    const int8_t* bytes = plane == 0 ? args.quantized.high : args.quantized.low;
    const int64_t span = activation_row(args, part, t) * row_spans + begin;
    gpu_cp_async16(&stage.quants[plane][place_of(t, piece)], gpu_aligned<uint4>(bytes) + 2 * span + piece);
  }
  for (int i = thread; i < kStageSpans * kTileTokens; i += n_threads) {
    const int s = i % kStageSpans, t = i / kStageSpans;
    if (s >= n_spans) continue;
    const int64_t span = activation_row(args, part, t) * row_spans + begin + s;
    stage.quant_scale[s][t] = __ldg(args.quantized.scale + span);
    if constexpr (Block::kHasMin) {
      const int2 sums = __ldg(gpu_aligned<int2>(args.quantized.half_sum) + span);
      if constexpr (Span<Block>::kGroups == 1) {
        stage.sum[s][0][t] = __int2float_rn(sums.x + sums.y);
      } else {
        stage.sum[s][0][t] = __int2float_rn(sums.x);
        stage.sum[s][1][t] = __int2float_rn(sums.y);
      }
    }
  }
}

// A lane's products of a group's weights (a) with the two bytes of the quants, for 16 rows and 8 tokens.
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

// 256 * high + low, rounded once, like a conversion from the integer.
__device__ __forceinline__ float joined(int high, int low) {
  return __fmaf_rn(__fsub_rn(__int_as_float(high), kIntegers), 256.0f,
                   __fsub_rn(__int_as_float(low), kIntegers));
}

// A lane's sums, for rows 16m + 8h + lane / 4 and tokens 8n + 2 * (lane % 4) + c of its warp.
using WarpSums = float[2][4][4];  // [m][n][2h + c]

template <class Block>
__device__ __forceinline__ void add_span(const Stage<Block>& stage, int s, const Part& part, WarpSums& acc) {
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
  for (int pair = 0; pair < 2; ++pair) {
    unsigned high[4], low[4];  // two words of each of two times 8 tokens
    const int place = place_of(part.token + 16 * pair + lane % 8 + lane / 16 * 8, 2 * s + lane / 8 % 2);
    gpu_load_matrices(high, &stage.quants[0][place]);
    gpu_load_matrices(low, &stage.quants[1][place]);
    GPU_UNROLL
    for (int n = 2 * pair; n < 2 * pair + 2; ++n) {
      const float2 by = *gpu_aligned<float2>(&stage.quant_scale[s][token + 8 * n]);
      GPU_UNROLL
      for (int m = 0; m < 2; ++m) {
        float dots[4];
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

__device__ __forceinline__ void store_sums(const MatmulArgs& args, const Part& part, int64_t first_place,
                                           int64_t n_places, int64_t to_head, const WarpSums& acc) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  GPU_UNROLL
  for (int i = 0; i < 32; ++i) {
    const int m = i / 16, n = i / 4 % 4, h = i / 2 % 2;
    const int64_t place = first_place + part.row + 16 * m + 8 * h + lane / 4;
    const int token = part.first_token + part.token + 8 * n + lane % 4 * 2 + i % 2;
    if (place < n_places && token <= part.last_token) args.store(token, place, acc[m][n][i % 4], to_head);
  }
}

// Without these launch bounds, ptxas keeps the registers of types with two groups below 128 and spills.
template <class Block>
__global__ void __launch_bounds__(kMostRowWarps* kRowThreads, Span<Block>::kGroups == 1 ? 0 : 1)
    many_kernel(MatmulArgs args, HeadSteps steps) {
  __shared__ Stage<Block> stages[2];
  const int n_rows = static_cast<int>(blockDim.x) / kRowThreads * kWarpRows;
  const int64_t n_places = args.n_places(), first_place = int64_t{blockIdx.y} * n_rows;
  if (first_place >= n_places) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Rows and tokens beyond the last ones repeat the last ones.
  const int64_t brought = first_place + static_cast<int>(threadIdx.x) / kStageSpans;
  const Part part{args.row_begin(min(brought, n_places - 1)) + steps.to_weights(),
                  warp / kTokenWarps * kWarpRows, warp % kTokenWarps * kWarpTokens,
                  static_cast<int>(blockIdx.x) * kTileTokens, args.n_tokens - 1};
  const bool idle = first_place + part.row >= n_places || part.first_token + part.token > part.last_token;
  const int n_spans = static_cast<int>(args.n_cols / kSpan);
  const auto bring = [&](int begin) {
    Stage<Block>& stage = stages[begin / kStageSpans % 2];
    const int n = min(kStageSpans, n_spans - begin);
    bring_quants(args, part, begin, n, stage);
    gpu_cp_async_commit();
    bring_weights(part.weights, begin, n, stage);
  };
  WarpSums acc = {};
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
  store_sums(args, part, first_place, n_places, steps.to_out(), acc);
}

}  // namespace

void launch_many(const MatmulOp& op, const MatmulArgs& args, cudaStream_t stream, int n_heads,
                 const HeadSteps& steps) {
  const int64_t token_tiles = (op.n_tokens + kTileTokens - 1) / kTileTokens;
  const auto row_tiles = [&](int warps) {
    return (most_places(op) + warps * kWarpRows - 1) / (warps * kWarpRows);
  };
  int row_warps = kMostRowWarps;
  while (row_warps > 1 && row_tiles(row_warps) * token_tiles * n_heads < kEnoughBlocks) row_warps /= 2;
  // Tokens are the first grid dimension, so that thread blocks that run at the same time read the same
  // weights.
  const dim3 grid(static_cast<unsigned>(token_tiles), static_cast<unsigned>(row_tiles(row_warps)),
                  static_cast<unsigned>(n_heads));
  visit_device_block_type(op.weight.dtype, [&]<class Block>() {
    check(gpu_launch([=] { return times(n_heads, tile_work(op)); }, gpu_kernel<many_kernel<Block>>, grid,
                     static_cast<unsigned>(row_warps * kRowThreads), 0, stream, args, steps),
          "multiplying many tokens with a quantized matrix");
  });
}

}  // namespace hearth::cuda
