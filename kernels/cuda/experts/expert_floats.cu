// Products of experts' F32, F16 and BF16 matrices, in the order of matmul_floats.cu.
//
// A thread block processes the tokens of its tile eight at a time, and reads its weight rows again for every
// eight tokens.
#include "kernels/cuda/experts/expert_args.cuh"
#include "kernels/cuda/matmul/float_rows.cuh"
#include "kernels/cuda/ops/kernel_class.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowGroups = kThreads / kChains;

template <class Load, int kRows, int kTokens>
__global__ void __launch_bounds__(kThreads) expert_floats_kernel(ExpertArgs args) {
  constexpr int kBlockRows = kRowGroups * kRows;
  ExpertWork work;
  if (!find_work(args, blockIdx.y, blockIdx.x, kBlockRows, work)) return;
  const int thread = static_cast<int>(threadIdx.x), n_tokens = work.tile.n_rows;
  const int64_t first = work.first + thread / kChains * kRows;
  const uint8_t* rows[kRows];  // rows and tokens beyond the last one repeat it; their results are not stored
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) rows[r] = work.row_begin(first + r, args.row_bytes);
  for (int begin = 0; begin < n_tokens; begin += kTokens) {
    const float* x[kTokens];
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      x[t] = args.x + args.input_row(work.tile, min(begin + t, n_tokens - 1)) * args.n_cols;
    }
    multiply_floats<Load>(rows, x, args.n_cols, thread % kChains, [&](int r, int t, float sum) {
      if (first + r < work.part.n_rows && begin + t < n_tokens) work.store(begin + t, first + r, sum);
    });
  }
}

template <class Load, int kRows, int kTokens>
void launch(const ExpertCall& call, cudaStream_t stream) {
  const dim3 grid(call.blocks(kRowGroups * kRows), static_cast<unsigned>(call.groups.max_tiles));
  check(gpu_launch(call.work(2, kFloatInstructions, false),
                   gpu_kernel<expert_floats_kernel<Load, kRows, kTokens>>, grid, kThreads, 0, stream,
                   call.args()),
        "multiplying with experts of floats");
}

}  // namespace

void launch_expert_floats(const ExpertCall& call, cudaStream_t stream) {
  visit_float_type(call.weight().dtype, true, [&]<class Load>() {
    call.groups.tile_rows == 1 ? launch<Load, 1, 1>(call, stream) : launch<Load, 2, 8>(call, stream);
  });
}

}  // namespace hearth::cuda
