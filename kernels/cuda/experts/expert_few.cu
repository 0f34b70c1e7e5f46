// Products of experts' quantized matrices with few tokens each: decoding, and batches in which an expert has
// about three tokens or fewer.
//
// The arithmetic and the limits are the same as in matmul_few.cu: a thread block computes 8 rows for a tile
// of one token, or of up to 4 tokens. With one token, a launch for gate and up of 8 experts has about 1,500
// thread blocks, so that some load weights while others wait for their chains of additions.
#include <type_traits>

#include "kernels/cuda/experts/decoded_blocks.cuh"
#include "kernels/cuda/experts/expert_args.cuh"
#include "kernels/cuda/matmul/few_rows.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/quant/decode.h"

namespace hearth::cuda {
namespace {

// At least one thread block per multiprocessor, as in matmul_few.cu.
template <class Block, int kTokens>
__global__ void __launch_bounds__(kFewThreads, 1) expert_few_kernel(ExpertArgs args) {
  __shared__ FewResults<kTokens> results;
  __shared__ int input_rows[kTokens];
  ExpertWork work;
  if (!find_work(args, blockIdx.y, blockIdx.x, kFewRows, work)) return;
  const uint8_t* rows[kFewRows];  // rows beyond the last row repeat it; their results are not stored
  GPU_UNROLL
  for (int r = 0; r < kFewRows; ++r) rows[r] = work.row_begin(work.first + r, args.row_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const int n_tokens = work.tile.n_rows;
  float sum;
  if constexpr (kTokens == 1) {
    const int input = args.input_row(work.tile, 0);
    sum = multiply_few<Block, kSlotAlign<Block>, kTokens>(rows, args.quantized, args.n_cols, n_tokens,
                                                          results, [&](int) { return input; });
  } else {
    if (thread < n_tokens) input_rows[thread] = args.input_row(work.tile, thread);
    __syncthreads();
    sum = multiply_few<Block, kSlotAlign<Block>, kTokens>(rows, args.quantized, args.n_cols, n_tokens,
                                                          results, [&](int t) { return input_rows[t]; });
  }
  const int64_t row = work.first + thread % kFewRows;
  if (thread < kFewRows * n_tokens && row < work.part.n_rows) work.store(thread / kFewRows, row, sum);
}

/// Instructions to decode one weight. For IQ1 to IQ3 and TQ this is an estimate: nvcc makes 1.2 (TQ2_0) to
/// 2.8 times (TQ1_0) as many instructions of this kernel as for Q4_0, counted in PTX.
template <class Block>
constexpr double kDecode = kDecodedFirst<Block> && !std::is_same_v<Block, BlockNVFP4> ? 3 : 0.6;

template <class Block, int kTokens>
void launch(const ExpertCall& call, cudaStream_t stream) {
  const dim3 grid(call.blocks(kFewRows), static_cast<unsigned>(call.groups.max_tiles));
  check(gpu_launch(call.work(kDecode<Block>, 1, false), gpu_kernel<expert_few_kernel<Block, kTokens>>, grid,
                   few_threads(call.weight().n_cols / kSpan), 0, stream, call.args()),
        "multiplying few tokens with experts");
}

}  // namespace

void launch_expert_few(const ExpertCall& call, cudaStream_t stream) {
  visit_block_type(call.weight().dtype, [&]<class Block>() {
    call.groups.tile_rows == 1 ? launch<Block, 1>(call, stream) : launch<Block, 4>(call, stream);
  });
}

}  // namespace hearth::cuda
