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
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/matmul/token_tiles.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kTileTokens = 64;

// Without these launch bounds, ptxas keeps the registers of types with two groups below 128 and spills.
template <class Block>
__global__ void __launch_bounds__(kMostRowWarps* TileShape<kTileTokens>::kRowThreads,
                                  Span<Block>::kGroups == 1 ? 0 : 1)
    many_kernel(MatmulArgs args, HeadSteps steps) {
  __shared__ Stage<Block, kTileTokens> stages[2];
  const int n_rows = static_cast<int>(blockDim.x) / TileShape<kTileTokens>::kRowThreads * kWarpRows;
  const int64_t n_places = args.n_places(), first_place = int64_t{blockIdx.y} * n_rows;
  if (first_place >= n_places) return;
  const int first_token = static_cast<int>(blockIdx.x) * kTileTokens, last_token = args.n_tokens - 1;
  // Alignment to two bytes covers all matrices: with 64 tokens the loads are few compared with the products.
  // Rows and tokens beyond the last ones repeat the last ones. With heads, each head's inputs follow those of
  // the previous head.
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
  // Tokens are the first grid dimension, so that thread blocks that run at the same time read the same
  // weights.
  const dim3 grid(static_cast<unsigned>(token_tiles), static_cast<unsigned>(row_tiles(row_warps)),
                  static_cast<unsigned>(n_heads));
  visit_device_block_type(op.weight.dtype, [&]<class Block>() {
    check(gpu_launch([=] { return times(n_heads, tile_work(op)); }, gpu_kernel<many_kernel<Block>>, grid,
                     static_cast<unsigned>(row_warps * TileShape<kTileTokens>::kRowThreads), 0, stream, args,
                     steps),
          "multiplying many tokens with a quantized matrix");
  });
}

}  // namespace hearth::cuda
