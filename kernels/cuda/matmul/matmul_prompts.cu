// Products of quantized weights with many tokens, for prompts. They run on tensor cores, and give the same
// bits as all other kernels.
//
// A quant is two bytes, q = 256 * high + low. So a span of 32 columns takes two byte products on the tensor
// cores (or four of half the length, for types with two groups per span), with exact int32 sums. The float
// operations that follow are the same as on the CPU, in the same order.
//
// A thread block computes a tile of 32 to 128 rows and 64 tokens. Each of its warps computes 32 rows and 32
// tokens of the tile. A warp keeps its sums in registers and adds the spans in ascending order. While two
// spans are multiplied, the next two are unpacked, their offsets are subtracted, and the results are stored
// in shared memory.
//
// The limit depends on the GPU. For one span of one row and one token, a thread block computes 64 byte
// products and 6 float operations (9 with mins; 11 and 17 for types with two groups). A multiprocessor of
// compute capability 8.0 takes 2 / 64 of a cycle for the byte products (2048 per cycle: peak rate divided by
// clock and multiprocessors) and 6 / 64 of a cycle for the float operations. So float operations are the
// limit there. A multiprocessor of compute capability 8.6 or 8.9 takes 8 / 128 of a cycle for the byte
// products (1024 per cycle) and 6 / 128 for the float operations, so byte products are the limit. Memory is
// not the limit: packed weights are read once per 64 tokens, and activations (2.4 bytes per column) once per
// 128 rows. At 4.5 bits per weight, these reads are one byte per 75 byte products. Most of them hit the L2
// cache, because thread blocks that run at the same time share weights.
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/matmul/token_tiles.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kTileTokens = 64;

// Without these launch bounds, ptxas keeps the kernels for types with two groups below 128 registers and
// spills.
template <class Block>
__global__ void __launch_bounds__(kMostRowWarps* TileShape<kTileTokens>::kRowThreads,
                                  Span<Block>::kGroups == 1 ? 0 : 1)
    many_kernel(MatmulArgs args, HeadSteps steps) {
  __shared__ Stage<Block, kTileTokens> stages[2];
  const int n_rows = static_cast<int>(blockDim.x) / TileShape<kTileTokens>::kRowThreads * kWarpRows;
  const int64_t n_places = args.n_places(), first_place = int64_t{blockIdx.y} * n_rows;
  if (first_place >= n_places) return;
  const int first_token = static_cast<int>(blockIdx.x) * kTileTokens, last_token = args.n_tokens - 1;
  // The loads only rely on an alignment of two bytes, which all matrices have. With 64 tokens, wider loads
  // would gain little, because loads are few compared with products. If a tile extends beyond the last row or
  // token, the excess rows and tokens repeat the last one. If there are heads, the quantized inputs are
  // ordered by head.
  multiply_tile<Block, 2, kTileTokens>(
      args.quantized, args.n_cols, n_places - first_place, args.n_tokens - first_token, stages,
      [&](int row) { return args.row_begin(min(first_place + row, n_places - 1)) + steps.to_weights(); },
      [&](int t) {
        return int64_t{static_cast<int>(blockIdx.z) * args.n_tokens + min(first_token + t, last_token)};
      },
      [&](int t, int row, float sum) {
        const int64_t place = first_place + row;
        const int token = first_token + t;
        if (place < n_places && token <= last_token) args.store(token, place, sum, steps.to_out());
      });
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
  // Tiles of tokens are the first grid dimension, so that thread blocks that run at the same time read the
  // same weights.
  const dim3 grid(static_cast<unsigned>(token_tiles), static_cast<unsigned>(row_tiles(row_warps)),
                  static_cast<unsigned>(n_heads));
  visit_device_block_type(op.weight.dtype, [&]<class Block>() {
    check(
        gpu_launch([=] { return times(n_heads, tile_work(op, kTileTokens)); }, gpu_kernel<many_kernel<Block>>,
                   grid, static_cast<unsigned>(row_warps * TileShape<kTileTokens>::kRowThreads), 0, stream,
                   args, steps),
        "multiplying many tokens with a quantized matrix");
  });
}

}  // namespace hearth::cuda
