// Products of experts' quantized matrices with many tokens each, on the tensor cores, for prompts.
//
// The arithmetic and the limits are the same as in matmul_prompts.cu, with tiles of 16, 32 or 64 tokens. A
// full tile and a tile with few tokens take about the same time, but each tile decodes the weights again. So
// the tile size depends on the step's mean number of tokens per expert (tile_rows_for() in group_pairs.cu).
#include <type_traits>

#include "kernels/cuda/experts/decoded_blocks.cuh"
#include "kernels/cuda/experts/expert_args.cuh"
#include "kernels/cuda/matmul/token_tiles.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/quant/decode.h"

namespace hearth::cuda {
namespace {

/// The alignment that loads of weights rely on. With 64 tokens the loads hardly matter, and wide loads take
/// so many registers that ptxas spills.
template <class Block, int kTokens>
constexpr int kLoadAlign = kTokens == 64 && !std::is_same_v<Block, BlockMXFP4> ? 2 : kSlotAlign<Block>;

/// The launch bounds' minimum number of thread blocks: the same as in matmul_prompts.cu, except that types
/// that are decoded first may use more than 128 registers for 64 tokens. Otherwise ptxas spills three of
/// them.
template <class Block, int kTokens>
constexpr int kLeastBlocks = Span<Block>::kGroups == 1 && !(kTokens == 64 && kDecodedFirst<Block>) ? 0 : 1;

// Tiles are the first grid dimension. So if an expert has several tiles, thread blocks that run at the same
// time read the same weights.
template <class Block, int kTokens>
__global__ void __launch_bounds__(kMostRowWarps* TileShape<kTokens>::kRowThreads,
                                  kLeastBlocks<Block, kTokens>) expert_tiles_kernel(ExpertArgs args) {
  __shared__ Stage<Block, kTokens> stages[2];
  __shared__ int input_rows[kTokens];
  // `work` is in shared memory, because the sums need all registers.
  __shared__ ExpertWork work;
  __shared__ bool found;
  const int block_rows = static_cast<int>(blockDim.x) / TileShape<kTokens>::kRowThreads * kWarpRows;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) found = find_work(args, blockIdx.x, blockIdx.y, block_rows, work);
  __syncthreads();
  if (!found) return;
  for (int t = thread; t < kTokens; t += static_cast<int>(blockDim.x)) {
    input_rows[t] = args.input_row(work.tile, min(t, work.tile.n_rows - 1));
  }
  __syncthreads();
  multiply_tile<Block, kLoadAlign<Block, kTokens>, kTokens>(
      args.quantized, args.n_cols, work.part.n_rows - work.first, work.tile.n_rows, stages,
      [&](int row) { return work.row_begin(work.first + row, args.row_bytes); },
      [&](int t) { return int64_t{input_rows[t]}; },
      [&](int t, int row, float sum) {
        if (t < work.tile.n_rows && work.first + row < work.part.n_rows) work.store(t, work.first + row, sum);
      });
}

template <class Block, int kTokens>
void launch(const ExpertCall& call, cudaStream_t stream) {
  const int64_t tiles = call.groups.max_tiles;
  int row_warps = kMostRowWarps;
  while (row_warps > 1 && call.blocks(row_warps * kWarpRows) * tiles < kEnoughBlocks) row_warps /= 2;
  const dim3 grid(static_cast<unsigned>(tiles), call.blocks(row_warps * kWarpRows));
  const auto threads = static_cast<unsigned>(row_warps * TileShape<kTokens>::kRowThreads);
  check(gpu_launch(call.work(0, 0, true), gpu_kernel<expert_tiles_kernel<Block, kTokens>>, grid, threads, 0,
                   stream, call.args()),
        "multiplying many tokens with experts");
}

}  // namespace

void launch_expert_tiles(const ExpertCall& call, cudaStream_t stream) {
  visit_block_type(call.weight().dtype, [&]<class Block>() {
    if (call.groups.tile_rows == 16) return launch<Block, 16>(call, stream);
    if (call.groups.tile_rows == 32) return launch<Block, 32>(call, stream);
    launch<Block, 64>(call, stream);
  });
}

}  // namespace hearth::cuda
