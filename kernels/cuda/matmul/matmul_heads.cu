// Products of all heads in one launch, where each head has its own weights (Backend::multiply_heads).
//
// Float weights, and quantized weights with many tokens, use the kernels for matrix products, with the heads
// as the grid's third dimension. Quantized weights with few tokens use heads_kernel() below, which also
// quantizes the activations. A head has few rows, and they are short (128 to 512 columns). So a separate
// launch that quantizes would take as long as the products themselves.
//
// A thread block computes 32 rows of a head for four tokens. It quantizes the activations of the tokens to
// shared memory, 512 columns at a time. Every thread block of a head quantizes the activations again. This
// reads 4 bytes per column and token from the L2 cache, which are few compared with the weights of 32 rows.
// Then, as in matmul_few.cu, each thread multiplies a span of 32 columns for four rows, and one thread per
// row and token adds the spans up in ascending order.
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/matmul/span_products.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/rows/quantize_rows.cuh"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 32, kTokens = 4;  // per thread block
constexpr int kBatch = 4;               // number of rows whose weights a thread holds at a time
constexpr int kPieceSpans = 16;         // number of spans that are in shared memory at a time
// Floats from one row of results to the next. The 4 extra floats keep rows aligned to 16 bytes, and shift
// each row so that 16 bytes of each of eight rows cover all 32 banks.
constexpr int kPitch = kPieceSpans + 4;
static_assert(kRows * kTokens == kThreads && kPieceSpans * kSpanLanes == kThreads);

/// The quants of a thread block's tokens: [kTokens, kPieceSpans] spans.
struct __align__(16) SharedQuants {
  uint4 high[kTokens * kPieceSpans * 2];
  uint4 low[kTokens * kPieceSpans * 2];
  int2 half_sum[kTokens * kPieceSpans];
  float scale[kTokens * kPieceSpans];

  __device__ QuantizedActivations arrays() {
    return {reinterpret_cast<int8_t*>(high), reinterpret_cast<int8_t*>(low), scale,
            gpu_aligned<int32_t>(half_sum)};
  }
  __device__ SpanQuants at(int token, int s) const {
    const int i = token * kPieceSpans + s;
    return {{high[2 * i], high[2 * i + 1]}, {low[2 * i], low[2 * i + 1]}, half_sum[i], scale[i]};
  }
};

/// Quantizes n_spans spans of each of n_tokens rows. The first row is at x. In each round, the thread block
/// quantizes one token.
__device__ __forceinline__ void quantize_rows(const float* x, int64_t stride, int n_tokens, int n_spans,
                                              SharedQuants& quants) {
  const int thread = static_cast<int>(threadIdx.x);
  const bool inside = thread / kSpanLanes < n_spans;
  for (int t = 0; t < n_tokens; ++t) {
    const float4 v = inside ? load_four(x + t * stride + 4 * thread) : float4{};
    quantize_four(v, inside, t * kThreads + thread, quants.arrays());
  }
}

// The second launch bound, at least one thread block per multiprocessor, has the same reason as in
// matmul_few.cu: without this bound, ptxas limits the kernel to fewer than 96 registers, and the kernel
// spills.
template <class Block>
__global__ void __launch_bounds__(kThreads, 1) heads_kernel(MatmulArgs args, HeadSteps steps) {
  __shared__ __align__(16) float results[kRows * kTokens][kPitch];
  __shared__ SharedQuants quants;
  const int64_t first = int64_t{blockIdx.x} * kRows;
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  const int n_tokens = min(kTokens, args.n_tokens - first_token);
  const int n_spans = static_cast<int>(args.n_cols / kSpan);
  const int thread = static_cast<int>(threadIdx.x);
  const float* x = args.x + steps.to_x() + first_token * args.x_stride;

  const uint8_t* const weights_of_head = args.weights + steps.to_weights();
  float sum = 0.0f;  // the product of row thread % kRows and token thread / kRows
  for (int begin = 0; begin < n_spans; begin += kPieceSpans) {
    const int n = min(kPieceSpans, n_spans - begin);
    quantize_rows(x + int64_t{begin} * kSpan, args.x_stride, n_tokens, n, quants);
    __syncthreads();
    for (int task = thread; task < kRows / kBatch * n; task += kThreads) {
      const int s = task % n, batch = task / n * kBatch;
      Span<Block> weights[kBatch];
      GPU_UNROLL
      for (int r = 0; r < kBatch; ++r) {  // rows beyond the last row repeat it; their results are not stored
        const uint8_t* row = weights_of_head + min(first + batch + r, args.n_rows - 1) * args.row_bytes;
        // All matrices are aligned to two bytes. Wider loads would gain little, because the weights of heads
        // are small.
        load_span<2>(row, begin + s, weights[r]);
      }
      for (int t = 0; t < n_tokens; ++t) {
        const SpanQuants span = quants.at(t, s);
        GPU_UNROLL
        for (int r = 0; r < kBatch; ++r) results[t * kRows + batch + r][s] = span_product(weights[r], span);
      }
    }
    __syncthreads();
    if (thread < kRows * n_tokens) sum = add_in_order(sum, results[thread], n);
    __syncthreads();  // wait before the next spans are written
  }
  const int64_t row = first + thread % kRows;
  if (thread < kRows * n_tokens && row < args.n_rows)
    args.store(first_token + thread / kRows, row, sum, steps.to_out());
}

bool takes_few(const HeadProducts& products, int n_tokens) {
  return uses_quantized_activations(products.weight.dtype) && n_tokens <= kBatchTokens;
}

/// The declared work: activations are read as floats, and weights are read once per kTokens tokens.
KernelWork few_work(const HeadProducts& heads, int n_tokens) {
  const Matrix& weight = heads.weight;
  const int passes = (n_tokens + kTokens - 1) / kTokens;
  const double places = static_cast<double>(weight.n_rows) * heads.n_heads;
  return {.bytes = passes * places * static_cast<double>(row_bytes(weight.dtype, weight.n_cols)) +
                   floats(int64_t{n_tokens} * heads.n_heads * (weight.n_cols + weight.n_rows)),
          .instructions = places * static_cast<double>(weight.n_cols) * (passes * 0.6 + n_tokens)};
}

void launch_few(const HeadProducts& heads, const MatmulArgs& args, const HeadSteps& steps,
                cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((args.n_rows + kRows - 1) / kRows),
                  static_cast<unsigned>((args.n_tokens + kTokens - 1) / kTokens),
                  static_cast<unsigned>(heads.n_heads));
  visit_device_block_type(heads.weight.dtype, [&]<class Block>() {
    check(gpu_launch([heads, n_tokens = args.n_tokens] { return few_work(heads, n_tokens); },
                     gpu_kernel<heads_kernel<Block>>, grid, kThreads, 0, stream, args, steps),
          "multiplying few tokens' heads with quantized matrices");
  });
}

}  // namespace

bool needs_room(const HeadProducts& products, int n_tokens) {
  return uses_quantized_activations(products.weight.dtype) && !takes_few(products, n_tokens);
}

void multiply_heads(const HeadProducts& products, int n_tokens, const QuantizedActivations& room,
                    cudaStream_t stream) {
  const Matrix& weight = products.weight;
  if (n_tokens == 0 || products.n_heads == 0 || weight.n_rows == 0) return;
  const MatmulOp of_first{.weight = weight,
                          .rows = {},
                          .x = products.x,
                          .quantized = room,
                          .n_tokens = n_tokens,
                          .out = products.out,
                          .out_stride = products.out_stride};
  MatmulArgs args = args_of(of_first);
  args.x_stride = products.x_stride;
  const HeadSteps steps{.weights = products.rows_apart * args.row_bytes,
                        .x = products.x_head_stride,
                        .out = products.out_head_stride};
  if (takes_few(products, n_tokens)) return launch_few(products, args, steps, stream);
  if (!needs_room(products, n_tokens)) return launch_float(of_first, args, stream, products.n_heads, steps);
  quantize_heads({products.x, products.x_stride, products.x_head_stride, products.n_heads}, n_tokens,
                 weight.n_cols, room, stream);
  launch_many(of_first, args, stream, products.n_heads, steps);
}

}  // namespace hearth::cuda
