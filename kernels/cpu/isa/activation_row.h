// The memory layout of one quantized activation row. A quant is a quantized activation. Quants, scales and
// sums have separate arrays, called planes.
//
// Why 15 bits: with int8 activations, SmolLM2-135M (Q4_1) had a mean KL divergence of 0.0012 from its float32
// reference, enough to change an answer's first word in a near tie. With the 16-bit quants here, the error is
// at most 2^-16 of the largest value of a group, and products are still integer products. Each ISA multiplies
// a quant either as two bytes, q = 256 * high + low, or as one 16-bit word. So each ISA has its own order of
// the quants within a span of 32 columns (see its quantize_half). All other planes have the same bytes on
// every ISA.
//
// If a user prefers speed (--activation-bits 8), rows have 8-bit quants instead, |q| <= 127. An 8-bit quant
// takes one byte, and half as many products as a 15-bit quant. The other planes are the same as with 15 bits.
//
// Why 32 columns per scale: most weight types have groups of this size, and at 15 bits an outlier does not
// noticeably hurt its group. In K-quants with groups of 16, two weight groups share one activation scale.
//
// Bounds: |q| <= 32512 = 127 * 256, so high and low both fit int8, and a sum of 32 quants is below 2^20. A
// weight byte is at most 255, offset included. So 32 products add up to at most 32 * 255 * 32512 < 2^28,
// offset * sum is at most 2^27, and 256 * (sum of high products) is at most 2^28. All of these fit int32.
//
// Everything here has internal linkage on purpose. Files compiled for different ISAs include this header, and
// the linker could keep the AVX-512 copy of an ordinary inline function for code that runs on any machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth {
namespace {

/// kActivationSpan columns share a scale. The smallest weight groups have kActivationHalf columns, so a row
/// also stores the sums of its half spans.
inline constexpr int kActivationSpan = 32;
inline constexpr int kActivationHalf = 16;
inline constexpr int kSpanBytes = 2 * kActivationSpan;

/// The largest quants of 15 bits and of 8 bits.
inline constexpr float kLargestQuant = 32512.0f;
inline constexpr float kLargestByte = 127.0f;

/// A span whose largest magnitude is below this becomes zeros. So kLargestQuant / max and the scale are
/// always normal floats.
inline constexpr float kSmallestMax = 4e-34f;

/// Pointers to the planes of one row.
struct ActivationRow {
  std::byte* quants;      // [n_cols / 32][32 * bytes of a quant], 32 quants in the ISA's own order
  float* scale;           // [n_cols / 32]
  float* half_sum;        // [n_cols / 16]  sum of quants, exact
  float* sum;             // [n_cols / 32]  half_sum[2i] + half_sum[2i + 1], exact
  int32_t* half_int_sum;  // [n_cols / 16]  the same sums as integers
  int32_t* int_sum;       // [n_cols / 32]
};

/// Bytes of one span of 32 columns. kOtherBytesPerSpan counts the scale, and three sums (of the span and of
/// its halves), each as a float and as an integer. kBytesPerSpan also counts quants of 15 bits.
inline constexpr size_t kOtherBytesPerSpan = 4 + 12 + 12;
inline constexpr size_t kBytesPerSpan = kSpanBytes + kOtherBytesPerSpan;

/// Returns the bytes of a row, rounded up to an odd number of cache lines. If the number were even, the
/// values of many tokens in one column would map to few sets of a cache. quant_bytes: 2 for 15-bit quants, 1
/// for 8-bit quants.
[[maybe_unused]] size_t activation_row_size(int64_t n_cols, int quant_bytes = 2) {
  const size_t spans = static_cast<size_t>(n_cols / kActivationSpan);
  const size_t span_bytes = static_cast<size_t>(quant_bytes * kActivationSpan) + kOtherBytesPerSpan;
  const size_t lines = (spans * span_bytes + 63) / 64;
  return (lines | 1) * 64;
}

[[maybe_unused]] ActivationRow activation_row(std::byte* row, int64_t n_cols, int quant_bytes = 2) {
  const size_t spans = static_cast<size_t>(n_cols / kActivationSpan);
  std::byte* scale = row + spans * static_cast<size_t>(quant_bytes * kActivationSpan);
  std::byte* half_sum = scale + spans * 4;
  std::byte* sum = half_sum + spans * 8;
  std::byte* half_int_sum = sum + spans * 4;
  std::byte* int_sum = half_int_sum + spans * 8;
  return {row,
          reinterpret_cast<float*>(scale),
          reinterpret_cast<float*>(half_sum),
          reinterpret_cast<float*>(sum),
          reinterpret_cast<int32_t*>(half_int_sum),
          reinterpret_cast<int32_t*>(int_sum)};
}

/// The parameters for quantizing one span: q = values[i] * inverse, rounded to nearest even.
struct SpanScale {
  const float* values;
  float scale;
  float inverse;
};

inline constexpr float kZeroSpan[kActivationSpan] = {};

/// Returns the scale of the span at x. `max_bits` is the largest bit pattern of x's values without their
/// signs; among bit patterns, NaN is above infinity, and infinity above all numbers. If the span has a NaN or
/// an infinity, its values are replaced by zeros and its scale is NaN. So every product with the span is NaN,
/// and no NaN is converted to an integer. Float arithmetic would almost always give NaN, too. `largest`:
/// kLargestQuant or kLargestByte.
[[maybe_unused]] SpanScale span_scale(const float* x, int32_t max_bits, float largest = kLargestQuant) {
  if (max_bits >= 0x7f800000) return {kZeroSpan, __builtin_nanf(""), 0.0f};
  float max;
  __builtin_memcpy(&max, &max_bits, sizeof max);
  if (max < kSmallestMax) return {kZeroSpan, 0.0f, 0.0f};
  return {x, max / largest, largest / max};
}

/// Fills all planes of span i except its quants.
[[maybe_unused]] void finish_span(const ActivationRow& row, int64_t i, float scale, int32_t first_half,
                                  int32_t second_half) {
  row.scale[i] = scale;
  row.half_int_sum[2 * i] = first_half;
  row.half_int_sum[2 * i + 1] = second_half;
  row.int_sum[i] = first_half + second_half;
  row.half_sum[2 * i] = static_cast<float>(first_half);
  row.half_sum[2 * i + 1] = static_cast<float>(second_half);
  row.sum[i] = static_cast<float>(first_half + second_half);
}

/// Quantizes x [n_cols] into the row at `out`, as MatmulKernels::quantize describes. The ISA supplies two
/// functions. largest_bits(x) returns the largest bit pattern of 32 values without their signs.
/// quantize_half(values, inverse, quants, half) quantizes 16 values to half 0 or 1 of the span whose quants
/// begin at `quants`, in the ISA's order, and returns the sum of these quants. quant_bytes: 2 for 15-bit
/// quants, 1 for 8-bit quants.
template <int quant_bytes, int32_t (*largest_bits)(const float* x),
          int32_t (*quantize_half)(const float* values, float inverse, std::byte* quants, int half)>
void quantize_activation_row(const float* x, int64_t n_cols, std::byte* out) {
  const ActivationRow row = activation_row(out, n_cols, quant_bytes);
  for (int64_t i = 0; i < n_cols / kActivationSpan; ++i, x += kActivationSpan) {
    const SpanScale span = span_scale(x, largest_bits(x), quant_bytes == 2 ? kLargestQuant : kLargestByte);
    std::byte* quants = row.quants + i * quant_bytes * kActivationSpan;
    const int32_t first = quantize_half(span.values, span.inverse, quants, 0);
    const int32_t second = quantize_half(span.values + kActivationHalf, span.inverse, quants, 1);
    finish_span(row, i, span.scale, first, second);
  }
}

}  // namespace
}  // namespace hearth
