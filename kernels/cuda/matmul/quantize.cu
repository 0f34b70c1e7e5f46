// Activations to 16-bit integers, two bytes each, with one scale per span of 32 columns: what matmul.cu
// multiplies quantised weights with. Arithmetic and bounds: kernels/cpu/activation_row.h.
//
// Eight lanes have a span, four columns each: 16-byte loads, 4-byte stores. 6.4 bytes an element.
#include "kernels/cuda/matmul/quantize.cuh"

#include "kernels/cuda/runtime/error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSpanLanes = 8;
constexpr size_t kAlignment = 256;

// Four values rounded to integers; their high and low bytes, and the sum.
struct FourQuants {
  unsigned high = 0, low = 0;
  int sum = 0;
};
__device__ __forceinline__ FourQuants quantize_four(float4 v, float inverse) {
  const float values[4] = {v.x, v.y, v.z, v.w};
  FourQuants four;
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int q = quant_of(values[i], inverse);
    four.high |= high_byte(q) << (8 * i);
    four.low |= low_byte(q) << (8 * i);
    four.sum += q;
  }
  return four;
}

// n_spans: of all tokens together, which lie one behind the other in every array.
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const float4* x, int64_t n_spans, QuantizedActivations out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % kSpanLanes;
  const bool inside = i < n_spans * kSpanLanes;  // lanes of a span are so together; all take part in shuffles
  float4 v = inside ? x[i] : float4{0.0f, 0.0f, 0.0f, 0.0f};
  int largest =
      max(max(magnitude_bits(v.x), magnitude_bits(v.y)), max(magnitude_bits(v.z), magnitude_bits(v.w)));
  GPU_UNROLL
  for (int apart = kSpanLanes / 2; apart > 0; apart /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, apart, kSpanLanes));
  }
  const SpanScale span = span_scale(largest);
  if (span.zero) v = float4{0.0f, 0.0f, 0.0f, 0.0f};
  const FourQuants four = quantize_four(v, span.inverse);
  int sum = four.sum;  // of a half: four lanes
  sum += __shfl_xor_sync(0xffffffffu, sum, 1, kSpanLanes);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2, kSpanLanes);
  if (!inside) return;
  reinterpret_cast<unsigned*>(out.high)[i] = four.high;
  reinterpret_cast<unsigned*>(out.low)[i] = four.low;
  if (lane % 4 == 0) out.half_sum[i / 4] = sum;
  if (lane != 0) return;
  out.scale[i / kSpanLanes] = span.scale;
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
  return {high, low, reinterpret_cast<float*>(scale), reinterpret_cast<int32_t*>(half_sum)};
}

void quantize(const float* x, int n_tokens, int64_t n_cols, const QuantizedActivations& out,
              cudaStream_t stream) {
  const int64_t n_spans = n_tokens * (n_cols / kActivationSpan);
  if (n_spans == 0) return;
  const auto blocks = static_cast<unsigned>((n_spans * kSpanLanes + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              // An activation of four bytes becomes two; a span has a scale and two sums besides.
              return KernelWork{.bytes = static_cast<double>(n_spans) * (6 * kActivationSpan + 12)};
            },
            quantize_kernel, blocks, kThreads, 0, stream, reinterpret_cast<const float4*>(x), n_spans, out),
        "quantising activations");
}

}  // namespace hearth::cuda
