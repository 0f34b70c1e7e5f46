// Quantizes activations to 16-bit integers, stored as two byte planes, with one scale per span of 32 columns.
// Products with quantized weights (matmul.cu) need them. kernels/cpu/isa/activation_row.h defines the
// arithmetic and the bounds.
//
// Loads take 16 bytes and stores 4. The kernel moves 6.4 bytes per element.
#include "kernels/cuda/rows/quantize_rows.cuh"

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;
constexpr size_t kAlignment = 256;

// n_spans: the number of spans of all tokens. They are contiguous in every array.
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const float4* x, int64_t n_spans, QuantizedActivations out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool inside = i < n_spans * kSpanLanes;
  quantize_four(inside ? x[i] : float4{}, inside, i, out);
}

// The row of token t and head h becomes row h * n_tokens + t.
__global__ void __launch_bounds__(kThreads)
    quantize_heads_kernel(HeadInputs heads, int n_tokens, int64_t n_cols, QuantizedActivations out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  // Use 32-bit numbers, because dividing them takes few instructions. Each number counts groups of four
  // floats, so 32 bits suffice for 2^34 floats.
  const auto four = static_cast<unsigned>(i), row_fours = static_cast<unsigned>(n_cols / 4);
  const unsigned row = four / row_fours, head = row / static_cast<unsigned>(n_tokens);
  const unsigned token = row - head * static_cast<unsigned>(n_tokens);
  const bool inside = head < static_cast<unsigned>(heads.n_heads);
  const float* from =
      heads.x + head * heads.head_stride + token * heads.stride + 4 * (four - row * row_fours);
  quantize_four(inside ? load_four(from) : float4{}, inside, i, out);
}

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

size_t quantized_bytes(int n_tokens, int64_t n_cols) {
  const size_t n = static_cast<size_t>(n_tokens) * static_cast<size_t>(n_cols);
  return 2 * aligned(n) + aligned(n / kActivationSpan * sizeof(float)) +
         aligned(n / kActivationHalf * sizeof(int32_t));
}

QuantizedActivations quantized_in(void* memory, int n_tokens, int64_t n_cols) {
  const size_t n = static_cast<size_t>(n_tokens) * static_cast<size_t>(n_cols);
  int8_t* high = static_cast<int8_t*>(memory);
  int8_t* low = high + aligned(n);
  int8_t* scale = low + aligned(n);
  int8_t* half_sum = scale + aligned(n / kActivationSpan * sizeof(float));
  return {high, low, gpu_aligned<float>(scale), gpu_aligned<int32_t>(half_sum)};
}

namespace {

/// The declared work: each 4-byte activation becomes two bytes, and each span also gets a scale and two sums.
KernelWork work_of(int64_t n_spans) {
  return {.bytes = static_cast<double>(n_spans) * (6 * kActivationSpan + 12)};
}

unsigned blocks_for(int64_t n_spans) {
  return static_cast<unsigned>((n_spans * kSpanLanes + kThreads - 1) / kThreads);
}

}  // namespace

void quantize(const float* x, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
              cudaStream_t stream) {
  const int64_t n_spans = n_tokens * (n_cols / kActivationSpan);
  if (n_spans == 0) return;
  check(gpu_launch([=] { return work_of(n_spans); }, gpu_kernel<quantize_kernel>, blocks_for(n_spans),
                   kThreads, 0, stream, gpu_aligned<float4>(x), n_spans, out),
        "quantizing activations");
}

void quantize_heads(const HeadInputs& heads, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
                    cudaStream_t stream) {
  const int64_t n_spans = int64_t{heads.n_heads} * n_tokens * (n_cols / kActivationSpan);
  if (n_spans == 0) return;
  check(gpu_launch([=] { return work_of(n_spans); }, gpu_kernel<quantize_heads_kernel>, blocks_for(n_spans),
                   kThreads, 0, stream, heads, n_tokens, n_cols, out),
        "quantizing heads' activations");
}

}  // namespace hearth::cuda
