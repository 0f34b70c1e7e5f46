// Products of quantized weights with few tokens, mainly with the single token of a decode step. Up to three
// products with the same x share a launch: q, k and v, or gate and up.
//
// A thread block computes 8 rows. Its threads divide the columns among themselves in spans of 32. A thread
// multiplies a span in all 8 rows, four rows at a time. So an activation that was loaded once serves several
// rows, the loads of several rows' weights overlap, and adjacent threads read adjacent weight blocks. The
// spans of a row are added one by one in ascending order, starting from 0: threads write the results of their
// spans to shared memory, and one thread per row and token adds them up. For 4096 columns this is a chain of
// 128 additions, which takes some 600 cycles, during which other thread blocks load weights.
//
// On an H200, a product with one token reaches 55 % of the memory-bound speed if the matrix has 25 MB of
// Q4_0, and 71 % if it has 132 MB of Q4_K. With four tokens, the same matrices reach 33 % and 38 %
// (tests/data/measured/h200).
#include <algorithm>
#include <array>

#include "kernels/cuda/matmul/few_rows.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

// The second launch bound, at least one thread block per multiprocessor, lets ptxas use more registers.
// Without this bound, ptxas limits the kernel for Q5_K on sm_89 to fewer than 96 registers, and the kernel
// spills.
template <class Block, int kAlign, int kTokens>
__global__ void __launch_bounds__(kFewThreads, 1) few_kernel(ProductRun run) {
  __shared__ FewResults<kTokens> results;
  int64_t block = blockIdx.x;
  const MatmulArgs args = run.of_block(block);
  const int64_t n_places = args.n_places();
  const int64_t first = block * kFewRows;
  if (first >= n_places) return;
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  const int n_tokens = min(kTokens, args.n_tokens - first_token);
  const uint8_t* rows[kFewRows];  // places beyond the last place repeat it; their results are not stored
  GPU_UNROLL
  for (int r = 0; r < kFewRows; ++r) rows[r] = args.row_begin(min(first + r, n_places - 1));
  const float sum = multiply_few<Block, kAlign, kTokens>(rows, args.quantized, args.n_cols, n_tokens, results,
                                                         [&](int t) { return first_token + t; });
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t place = first + thread % kFewRows;
  if (thread < kFewRows * n_tokens && place < n_places) {
    args.store(first_token + thread / kFewRows, place, sum);
  }
}

template <class Block, int kAlign, int kTokens>
void launch(std::span<const MatmulOp> ops, cudaStream_t stream) {
  std::array<MatmulOp, kMostProducts> kept;
  std::copy(ops.begin(), ops.end(), kept.begin());
  const MatmulOp& op = ops[0];
  int64_t blocks;
  const ProductRun run = run_of(ops, kFewRows, blocks);
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>((op.n_tokens + kTokens - 1) / kTokens));
  check(gpu_launch([kept, n = ops.size()] { return product_work(std::span(kept).first(n), kTokens, 0.6, 1); },
                   gpu_kernel<few_kernel<Block, kAlign, kTokens>>, grid,
                   few_threads(op.weight.n_cols / kSpan), 0, stream, run),
        "multiplying few tokens with a quantized matrix");
}

}  // namespace

void launch_few(std::span<const MatmulOp> ops, cudaStream_t stream) {
  visit_device_block_type(ops[0].weight.dtype, [&]<class Block>() {
    constexpr int kAlign = kBlockAlign<Block>;
    const bool aligned = blocks_aligned(ops[0].weight);
    if (ops[0].n_tokens == 1) {
      aligned ? launch<Block, kAlign, 1>(ops, stream) : launch<Block, 2, 1>(ops, stream);
    } else {
      aligned ? launch<Block, kAlign, 4>(ops, stream) : launch<Block, 2, 4>(ops, stream);
    }
  });
}

}  // namespace hearth::cuda
