// Matmul with the dot products of ARMv8.2: the Simd classes for NEON with dot products, and the quantization
// of their activations.
//
// sdot multiplies four columns of four rows by four bytes of one plane of the quants (q = 256 * high + low).
// It takes these bytes from any lane, so no broadcasts are needed. Both operands are signed. Weight bytes
// below 128 can be read as signed bytes; NeonSigned handles types with larger weights. Everything is in an
// anonymous namespace, for the reason given in simd_neon.h.
#pragma once

#include <type_traits>

#include "kernels/cpu/neon/simd_neon.h"

namespace hearth {
namespace {

/// planes: bytes per quant.
template <int planes>
struct NeonDot : Neon {
  static constexpr int kQuantBytes = planes;
  static constexpr bool kSubtractsOffset = false;
  template <int largest>
  static constexpr int kVectorsPerFour = 1;  // panels of bytes are multiplied without conversion

  /// Returns sum + the products of four columns with the bytes in dword `lane` of x.
  template <int lane>
  [[gnu::always_inline]] static Int add_four(Int sum, Int weights, int8x16_t x) {
    return {vdotq_laneq_s32(sum.low, vreinterpretq_s8_s32(weights.low), x, lane),
            vdotq_laneq_s32(sum.high, vreinterpretq_s8_s32(weights.high), x, lane)};
  }

  /// Returns 256 * highs + lows, where the arguments are the sums over the high bytes and over the low bytes.
  static Int of_planes(Int highs, Int lows) { return add_int(shift_left<8>(highs), lows); }

  // Multiplies kColumns weights by a token's quants, from column `column` of a span on. Returns the sums of
  // the products. The sums are exact (bounds: activation_row.h), so any order gives the same result.
  template <int kColumns, int largest>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    Int highs = zero(), lows = zero();
    unroll<kColumns / 16>([&]<int k>() __attribute__((always_inline)) {
      const int8x16_t high = load_bytes(span + column + 16 * k);
      unroll<4>([&]<int j>()
                    __attribute__((always_inline)) { highs = add_four<j>(highs, weights[4 * k + j], high); });
      if constexpr (planes == 2) {
        const int8x16_t low = load_bytes(span + column + 16 * k + kActivationSpan);
        unroll<4>([&]<int j>()
                      __attribute__((always_inline)) { lows = add_four<j>(lows, weights[4 * k + j], low); });
      }
    });
    if constexpr (planes == 1) return highs;
    return of_planes(highs, lows);
  }

  // Multiplies n vectors by 16 * n quants of a token, from column `column` of a span on. Each vector has 16
  // columns of each of its rows, in memory order. Returns four partial sums per row.
  template <int n, int largest>
  [[gnu::always_inline]] static Int dot_rows(const Int* weights, const std::byte* span, int column) {
    Int sum = zero();
    for (int p = 0; p < planes; ++p) {
      if (p == 1) sum = shift_left<8>(sum);
      for (int i = 0; i < n; ++i) {
        const int8x16_t x = load_bytes(span + p * kActivationSpan + column + 16 * i);
        sum.low = vdotq_s32(sum.low, vreinterpretq_s8_s32(weights[i].low), x);
        sum.high = vdotq_s32(sum.high, vreinterpretq_s8_s32(weights[i].high), x);
      }
    }
    return sum;
  }

  // Multiplies the low nibbles of n vectors (four columns each) by 4 * n quants of a token, from column
  // `column` of a span on.
  template <int n>
  [[gnu::always_inline]] static Int dot_low_nibbles(const Int* raw, const std::byte* span, int column) {
    Int weights[n];
    for (int k = 0; k < n; ++k) weights[k] = bit_and(raw[k], bytes(0x0f));
    return dot_one<4 * n, 15>(weights, span, column);
  }
  // Returns 16 times the products of the high nibbles. The nibbles are shifted down first, because a byte
  // with a high nibble of 8 or more would be read as negative.
  template <int n>
  [[gnu::always_inline]] static Int dot_high_nibbles_16(const Int* raw, const std::byte* span, int column) {
    Int weights[n];
    for (int k = 0; k < n; ++k) weights[k] = {high_nibbles(raw[k].low), high_nibbles(raw[k].high)};
    return shift_left<4>(dot_one<4 * n, 15>(weights, span, column));
  }

  // Adds to sum[p][t], for each panel p and token t, the products of the panel's rows with the token's
  // quants. The quants of the n tokens are `stride` bytes apart. All high bytes are multiplied first, then
  // all low bytes, because 32 registers do not hold the sums of both at once.
  template <int n, int kColumns, int largest>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    if constexpr (planes == 1) return add_plane<n, kColumns>(first, second, span + column, stride, sum);
    Int highs[2][n];
    for (int t = 0; t < n; ++t) highs[0][t] = highs[1][t] = zero();
    add_plane<n, kColumns>(first, second, span + column, stride, highs);
    for (int t = 0; t < n; ++t) {
      for (int p = 0; p < 2; ++p) sum[p][t] = of_planes(highs[p][t], sum[p][t]);
    }
    add_plane<n, kColumns>(first, second, span + column + kActivationSpan, stride, sum);
  }
  template <int n, int kColumns>
  [[gnu::always_inline]] static void add_plane(const Int* first, const Int* second, const std::byte* plane,
                                               size_t stride, Int (&sum)[2][n]) {
    unroll<kColumns / 16>([&]<int k>() __attribute__((always_inline)) {
      int8x16_t x[n];
      for (int t = 0; t < n; ++t) x[t] = load_bytes(plane + 16 * k + static_cast<size_t>(t) * stride);
      unroll<4>([&]<int j>() __attribute__((always_inline)) {
        const Int a = first[4 * k + j], b = second[4 * k + j];
        for (int t = 0; t < n; ++t) {
          sum[0][t] = add_four<j>(sum[0][t], a, x[t]);
          sum[1][t] = add_four<j>(sum[1][t], b, x[t]);
        }
      });
    });
  }

  static int8x16_t load_bytes(const std::byte* p) { return vreinterpretq_s8_u8(load16(p)); }
  static int32x4_t high_nibbles(int32x4_t v) {
    return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(v), 4));
  }
};

/// For blocks whose weights are signed bytes: Q8_0, IQ4_NL, IQ4_XS. The common loops make such weights
/// unsigned by adding 128 (bit_xor() with 0x80), and subtract 128 times the sum of the activations (a shift
/// by 7) from the products. Here bit_xor() changes nothing and this shift gives 0, so the bytes stay signed.
template <int planes>
struct NeonSigned : NeonDot<planes> {
  using Int = Neon::Int;
  static Int bit_xor(Int weights, Int) { return weights; }
  static constexpr bool kSubtractsOffset = true;
  template <int n>
  static Int shift_left(Int v) {
    if constexpr (n == 7)
      return Neon::zero();
    else
      return Neon::shift_left<n>(v);
  }
};
static_assert(BlockQ8_0::kOffset == 128 && BlockIQ4_NL::kOffset == 128 && BlockIQ4_XS::kOffset == 128);

template <int planes>
struct Dotprod {
  template <class Block>
  using Many = std::conditional_t<Block::kLargest == 255, NeonSigned<planes>, NeonDot<planes>>;
  template <class Block>
  using One = Many<Block>;
};

// A span's quants are 32 high bytes, then 32 low bytes; q = 256 * high + low, both signed. With 8-bit
// activations, there is only one plane of 32 bytes. See quantize_activation_row().
template <int planes>
int quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  const HalfSpan q = quantize_16(values, inverse);
  int8_t* to = reinterpret_cast<int8_t*>(quants) + half * kActivationHalf;
  const int8x16_t low = vcombine_s8(vmovn_s16(q.first), vmovn_s16(q.second));
  if constexpr (planes == 1) {
    vst1q_s8(to, low);
  } else {
    const int16x8_t rounding = vdupq_n_s16(128);  // the low byte is signed, so the high byte is rounded
    vst1q_s8(to, vcombine_s8(vshrn_n_s16(vaddq_s16(q.first, rounding), 8),
                             vshrn_n_s16(vaddq_s16(q.second, rounding), 8)));
    vst1q_s8(to + kActivationSpan, low);
  }
  return q.sum;
}

}  // namespace
}  // namespace hearth
