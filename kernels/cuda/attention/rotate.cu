// Rotary position embedding: rotates pairs of a head's numbers by angles from a table that the host computes.
//
//   (a, b) -> (a cos - b sin, b cos + a sin)
//
// Each product and sum is rounded separately, as in rotate_halves() and rotate_interleaved() of
// kernels/cpu/lanes/rows_inl.h, so the results have the same bits. One thread rotates one pair. It moves 16
// bytes of x and 8 of the table (which stays in the cache for all heads) for 6 operations, so the kernel is
// memory-bound. The queries and keys of a decode token are only a few thousand pairs, so one launch rotates
// both.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

struct RopeArgs {
  HeadRows q, k;
  int head_dim;
  int n_rot;
  const float* table;
  int64_t row_floats;
  int64_t n_pairs;  // of all tokens
};

template <RopeKind kKind>
__global__ void __launch_bounds__(kThreads) rope_kernel(RopeArgs args) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= args.n_pairs) return;
  const int half = args.n_rot / 2;
  const int64_t head = index / half;  // of all tokens
  const int pair = static_cast<int>(index - head * half);
  const int n_heads = args.q.n_heads + args.k.n_heads;
  const int64_t token = head / n_heads;
  const int of_token = static_cast<int>(head - token * n_heads);
  const bool is_key = of_token >= args.q.n_heads;
  const HeadRows& rows = is_key ? args.k : args.q;
  float* x = rows.x + token * rows.stride + (is_key ? of_token - args.q.n_heads : of_token) * args.head_dim;
  const float* table = args.table + token * args.row_floats;
  if constexpr (kKind == RopeKind::kHalves) {
    const float cosine = table[pair], sine = table[half + pair];
    const float a = x[pair], b = x[half + pair];
    x[pair] = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
    x[half + pair] = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
  } else {
    // The table stores each cosine twice, and each sine twice: first negated, then as it is.
    const int first = 2 * pair;
    const float a = x[first], b = x[first + 1];
    const float* sines = table + args.n_rot;
    x[first] = __fadd_rn(__fmul_rn(a, table[first]), __fmul_rn(b, sines[first]));
    x[first + 1] = __fadd_rn(__fmul_rn(b, table[first + 1]), __fmul_rn(a, sines[first + 1]));
  }
}

}  // namespace

void rope(const HeadRows& q, const HeadRows& k, int head_dim, RopeKind kind, int n_rot, const float* table,
          int64_t row_floats, int n_tokens, cudaStream_t stream) {
  const int64_t n_pairs = int64_t{n_tokens} * (q.n_heads + k.n_heads) * (n_rot / 2);
  if (n_pairs == 0 || kind == RopeKind::kNone) return;
  const RopeArgs args{q, k, head_dim, n_rot, table, row_floats, n_pairs};
  const auto blocks = static_cast<unsigned>((n_pairs + kThreads - 1) / kThreads);
  const auto& kernel = kind == RopeKind::kHalves ? gpu_kernel<rope_kernel<RopeKind::kHalves>>
                                                 : gpu_kernel<rope_kernel<RopeKind::kInterleaved>>;
  check(gpu_launch(
            [=] { return KernelWork{.bytes = 4 * floats(n_pairs) + floats(int64_t{n_tokens} * row_floats)}; },
            kernel, blocks, kThreads, 0, stream, args),
        "rotating heads by their positions");
}

}  // namespace hearth::cuda
