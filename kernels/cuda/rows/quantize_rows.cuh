// Device code that quantizes a span of 32 activations to 16-bit integers. kernels/cpu/isa/activation_row.h
// describes the bounds.
#pragma once

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// The factors with which a span is quantized. They follow from the span's largest magnitude.
struct SpanScale {
  bool zero;      // all of its quants are 0
  float inverse;  // quant = value * inverse, rounded
  float scale;    // value = quant * scale, approximately
};

/// Returns the bits of a float without the sign. They have the same order as the magnitudes; infinity is
/// above all numbers, and NaN above infinity.
__device__ __forceinline__ int magnitude_bits(float value) { return __float_as_int(value) & 0x7fffffff; }

/// largest: the largest magnitude_bits() of the span.
__device__ __forceinline__ SpanScale span_scale(int largest) {
  const float top = __int_as_float(largest);
  const bool number = largest < 0x7f800000, zero = !number || top < kSmallestMax;
  const float scale = zero ? 0.0f : __fdiv_rn(top, kLargestQuant);
  return {zero, zero ? 0.0f : __fdiv_rn(kLargestQuant, top), number ? scale : __int_as_float(0x7fc00000)};
}

__device__ __forceinline__ int quant_of(float value, float inverse) {
  return __float2int_rn(__fmul_rn(value, inverse));
}
/// The two bytes of q, where q = 256 * high + low.
__device__ __forceinline__ unsigned high_byte(int q) { return static_cast<unsigned>((q + 128) >> 8) & 0xffu; }
__device__ __forceinline__ unsigned low_byte(int q) { return static_cast<unsigned>(q) & 0xffu; }

/// Quantizes `value` to element i of `out`. A warp handles a span, one element per lane. Kernels call this
/// for a value that they have just computed. REQUIRES: all lanes of the warp take part, and i is a multiple
/// of 32 in lane 0.
__device__ __forceinline__ void quantize_own(float value, int64_t i, const QuantizedActivations& out) {
  int largest = magnitude_bits(value);
  GPU_UNROLL
  for (int apart = 16; apart > 0; apart /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, apart));
  const SpanScale span = span_scale(largest);
  const int q = span.zero ? 0 : quant_of(value, span.inverse);
  int sum = q;  // sum of a half span: 16 lanes
  GPU_UNROLL
  for (int apart = 8; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  out.high[i] = static_cast<int8_t>(high_byte(q));
  out.low[i] = static_cast<int8_t>(low_byte(q));
  if (i % kActivationHalf == 0) out.half_sum[i / kActivationHalf] = sum;
  if (i % kActivationSpan == 0) out.scale[i / kActivationSpan] = span.scale;
}

/// Lanes per span, four columns each.
inline constexpr int kSpanLanes = 8;

/// Loads four floats with a float's alignment.
__device__ __forceinline__ float4 load_four(const float* p) { return {p[0], p[1], p[2], p[3]}; }

/// Quantizes `v` to elements 4i to 4i + 3 of `out`. kSpanLanes adjacent lanes handle a span. Lanes whose
/// `inside` is false write nothing. REQUIRES: all lanes of the warp take part, and `inside` is the same for
/// all lanes of a span.
__device__ __forceinline__ void quantize_four(float4 v, bool inside, int64_t i,
                                              const QuantizedActivations& out) {
  int largest =
      max(max(magnitude_bits(v.x), magnitude_bits(v.y)), max(magnitude_bits(v.z), magnitude_bits(v.w)));
  GPU_UNROLL
  for (int apart = kSpanLanes / 2; apart > 0; apart /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, apart, kSpanLanes));
  }
  const SpanScale span = span_scale(largest);
  const float values[4] = {v.x, v.y, v.z, v.w};
  unsigned high = 0, low = 0;
  int sum = 0;
  GPU_UNROLL
  for (int k = 0; k < 4; ++k) {
    const int q = span.zero ? 0 : quant_of(values[k], span.inverse);
    high |= high_byte(q) << (8 * k);
    low |= low_byte(q) << (8 * k);
    sum += q;
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1, kSpanLanes);  // sum of a half span: four lanes
  sum += __shfl_xor_sync(0xffffffffu, sum, 2, kSpanLanes);
  if (!inside) return;
  gpu_aligned<unsigned>(out.high)[i] = high;
  gpu_aligned<unsigned>(out.low)[i] = low;
  if (i % 4 == 0) out.half_sum[i / 4] = sum;
  if (i % kSpanLanes == 0) out.scale[i / kSpanLanes] = span.scale;
}

/// Returns the number of bytes that a kernel writes to quantize n activations that it holds in registers.
inline double quantized_written(int64_t n) { return (2.0 + 12.0 / kActivationSpan) * static_cast<double>(n); }

}  // namespace hearth::cuda
