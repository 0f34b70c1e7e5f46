// Quantised weights times many tokens: a prompt.
//
// A block has a tile of 64 rows and 32 tokens, a thread 4 x 4 products of it, whose sums over spans stay in
// registers: ascending order comes by itself. Four spans at a time are brought to shared memory, weights
// unpacked: unpacked once for 32 tokens. For each span a thread reads 24 times 16 bytes and does 256 byte
// products, so these are the bound; warps read 16 or 2 different 16-byte words at a time, the others are
// copies.
#include "kernels/cuda/error.h"
#include "kernels/cuda/matmul_args.cuh"
#include "kernels/cuda/span_product.cuh"
#include "kernels/quant/decode.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTileRows = 64, kTileTokens = 32;
constexpr int kStepSpans = 4;
constexpr int kMine = 4;                         // rows and tokens of a thread
constexpr int kRowGroups = kTileRows / kMine;    // lanes 0..15 and 16..31 of a warp
constexpr int kWeightPitch = 8 * kTileRows + 8;  // words of a span's weights: 8 rows x 4 spans, 32 banks
constexpr int kFactorPitch = 2 * kTileRows + 8;  // two groups' factors
constexpr int kQuantRow = kTileTokens + 4;       // words of column quads: 4 tokens x 4 spans x 2 halves
constexpr int kQuantPitch = 8 * kQuantRow + 4;

struct __align__(16) Tile {
  int weights[kStepSpans][kWeightPitch];  // [word of the span][row]
  float scale[kStepSpans][kFactorPitch];  // [group][row]
  float min[kStepSpans][kFactorPitch];
  int quants[2][kStepSpans][kQuantPitch];  // high, low: [word of the span][token]
  float quant_scale[kStepSpans][kTileTokens];
  int half_sum[kStepSpans][2][kTileTokens];
};

// Where a block's tile begins, and its last row and token, which stand in for those behind them.
struct Corner {
  int64_t place, last_place;
  int token, last_token;
};

template <class Block>
__device__ __forceinline__ void bring_weights(const MatmulArgs& args, const Corner& at, int begin,
                                              int n_spans, Tile& tile) {
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kStepSpans; i += kThreads) {
    const int s = i % kStepSpans, r = i / kStepSpans;
    if (s >= n_spans) continue;
    Span<Block> span;
    // Two bytes' alignment serves all matrices: for 32 tokens the loads are few beside the products.
    load_span<2>(args.row_begin(min(at.place + r, at.last_place)), begin + s, span);
    GPU_UNROLL
    for (int k = 0; k < 8; ++k) tile.weights[s][k * kTileRows + r] = static_cast<int>(span.words[k]);
    GPU_UNROLL
    for (int g = 0; g < Span<Block>::kGroups; ++g) {
      tile.scale[s][g * kTileRows + r] = span.scale[g];
      if constexpr (Block::kHasMin) tile.min[s][g * kTileRows + r] = span.min[g];
    }
  }
}

__device__ __forceinline__ void bring_quants(const MatmulArgs& args, const Corner& at, int begin, int n_spans,
                                             Tile& tile) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row_spans = args.n_cols / kSpan;
  constexpr int kPieces = 2 * kStepSpans;  // of 16 bytes, of a token's plane
  for (int i = thread; i < 2 * kTileTokens * kPieces; i += kThreads) {
    const int piece = i % kPieces, t = i / kPieces % kTileTokens, plane = i / (kPieces * kTileTokens);
    const int s = piece / 2, first = piece % 2 * 4;
    if (s >= n_spans) continue;
    const int8_t* bytes = plane == 0 ? args.quantized.high : args.quantized.low;
    const int64_t span = min(at.token + t, at.last_token) * row_spans + begin + s;
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(bytes) + 2 * span + piece % 2);
    int* to = &tile.quants[plane][s][first * kQuantRow + t];
    to[0] = static_cast<int>(v.x), to[kQuantRow] = static_cast<int>(v.y);
    to[2 * kQuantRow] = static_cast<int>(v.z), to[3 * kQuantRow] = static_cast<int>(v.w);
  }
  for (int i = thread; i < kStepSpans * kTileTokens; i += kThreads) {
    const int s = i % kStepSpans, t = i / kStepSpans;
    if (s >= n_spans) continue;
    const int64_t span = min(at.token + t, at.last_token) * row_spans + begin + s;
    const int2 sums = __ldg(reinterpret_cast<const int2*>(args.quantized.half_sum) + span);
    tile.quant_scale[s][t] = __ldg(args.quantized.scale + span);
    tile.half_sum[s][0][t] = sums.x;
    tile.half_sum[s][1][t] = sums.y;
  }
}

__device__ __forceinline__ void read_four(const int* from, int (&to)[kMine]) {
  const int4 v = *reinterpret_cast<const int4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void read_four(const float* from, float (&to)[kMine]) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

// The terms of a thread's products for group g of span s.
template <class Block>
__device__ __forceinline__ void group_terms(const Tile& tile, int s, int g, int row, int token,
                                            float (&terms)[kMine][kMine]) {
  int high[kMine][kMine] = {}, low[kMine][kMine] = {};
  constexpr int kWords = Block::kGroup / 4;
  GPU_UNROLL
  for (int k = g * kWords; k < (g + 1) * kWords; ++k) {
    int w[kMine], high_quants[kMine], low_quants[kMine];
    read_four(&tile.weights[s][k * kTileRows + row], w);
    read_four(&tile.quants[0][s][k * kQuantRow + token], high_quants);
    read_four(&tile.quants[1][s][k * kQuantRow + token], low_quants);
    GPU_UNROLL
    for (int r = 0; r < kMine; ++r) {
      GPU_UNROLL
      for (int t = 0; t < kMine; ++t) {
        high[r][t] = __dp4a(w[r], high_quants[t], high[r][t]);
        low[r][t] = __dp4a(w[r], low_quants[t], low[r][t]);
      }
    }
  }
  float scale[kMine], mins[kMine] = {};
  int sums[kMine] = {};
  read_four(&tile.scale[s][g * kTileRows + row], scale);
  if constexpr (Block::kHasMin) read_four(&tile.min[s][g * kTileRows + row], mins);
  if constexpr (kNeedsSums<Block>) {
    read_four(&tile.half_sum[s][g][token], sums);
    if constexpr (Span<Block>::kGroups == 1) {
      int second[kMine];
      read_four(&tile.half_sum[s][1][token], second);
      GPU_UNROLL
      for (int t = 0; t < kMine; ++t) sums[t] += second[t];
    }
  }
  GPU_UNROLL
  for (int r = 0; r < kMine; ++r) {
    GPU_UNROLL
    for (int t = 0; t < kMine; ++t) {
      terms[r][t] = group_term<Block>(high[r][t], low[r][t], sums[t], scale[r], mins[r]);
    }
  }
}

template <class Block>
__device__ __forceinline__ void add_span(const Tile& tile, int s, int row, int token,
                                         float (&acc)[kMine][kMine]) {
  float dots[kMine][kMine], scale[kMine];
  group_terms<Block>(tile, s, 0, row, token, dots);
  if constexpr (Span<Block>::kGroups == 2) {
    float second[kMine][kMine];
    group_terms<Block>(tile, s, 1, row, token, second);
    GPU_UNROLL
    for (int i = 0; i < kMine * kMine; ++i) {
      dots[i / kMine][i % kMine] = __fadd_rn(dots[i / kMine][i % kMine], second[i / kMine][i % kMine]);
    }
  }
  read_four(&tile.quant_scale[s][token], scale);
  GPU_UNROLL
  for (int r = 0; r < kMine; ++r) {
    GPU_UNROLL
    for (int t = 0; t < kMine; ++t) acc[r][t] = __fadd_rn(acc[r][t], __fmul_rn(dots[r][t], scale[t]));
  }
}

template <class Block>
__global__ void __launch_bounds__(kThreads) many_kernel(MatmulArgs args) {
  __shared__ Tile tile;
  const int64_t n_places = args.n_places();
  const Corner at{int64_t{blockIdx.x} * kTileRows, n_places - 1, static_cast<int>(blockIdx.y) * kTileTokens,
                  args.n_tokens - 1};
  if (at.place >= n_places) return;
  const int row = static_cast<int>(threadIdx.x) % kRowGroups * kMine;
  const int token = static_cast<int>(threadIdx.x) / kRowGroups * kMine;
  const int n_spans = static_cast<int>(args.n_cols / kSpan);
  float acc[kMine][kMine] = {};
  for (int begin = 0; begin < n_spans; begin += kStepSpans) {
    const int n = min(kStepSpans, n_spans - begin);
    if (begin > 0) __syncthreads();  // until the step before is multiplied
    bring_weights<Block>(args, at, begin, n, tile);
    bring_quants(args, at, begin, n, tile);
    __syncthreads();
    for (int s = 0; s < n; ++s) add_span<Block>(tile, s, row, token, acc);
  }
  GPU_UNROLL
  for (int t = 0; t < kMine; ++t) {
    GPU_UNROLL
    for (int r = 0; r < kMine; ++r) {
      if (at.place + row + r <= at.last_place && at.token + token + t <= at.last_token) {
        args.store(at.token + token + t, at.place + row + r, acc[r][t]);
      }
    }
  }
}

}  // namespace

void launch_many(const MatmulOp& op, const MatmulArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((most_places(op) + kTileRows - 1) / kTileRows),
                  static_cast<unsigned>((op.n_tokens + kTileTokens - 1) / kTileTokens));
  visit_block_type(op.weight.dtype, [&]<class Block>() {
    check(gpu_launch(many_kernel<Block>, grid, kThreads, 0, stream, args),
          "multiplying many tokens with a quantised matrix");
  });
}

}  // namespace hearth::cuda
