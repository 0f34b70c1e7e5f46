// A vector of eight weight rows in two NEON registers: the Simd class of the loops in kernels/cpu/simd, but
// without integer products. Also loads of float weights, and quantization of activations.
//
// Included by the source files for NEON and for NEON with dot products, which multiply in different ways.
// Everything is in an anonymous namespace: each source file gets its own copies, so that the linker cannot
// use code compiled for one processor on another.
#pragma once

#include <arm_neon.h>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_table.h"

namespace hearth {
namespace {

/// Lane r of `low` belongs to row r, and lane r of `high` belongs to row 4 + r.
struct NeonInt {
  int32x4_t low, high;
};
struct NeonFloat {
  float32x4_t low, high;
};

struct Neon {
  using Int = NeonInt;
  using Float = NeonFloat;
  static constexpr int kLanes = 8;
  template <int largest, int group>
  static constexpr int kTokenTile = 4;  // 16 of 32 registers are sums
  static constexpr int class_of(int) { return 255; }
  static constexpr int kFloatRows = 3, kFloatTokens = 4,
                       kFloatRowsOfOne = 8;  // 12 sums in 24 of 32 registers

  static Int zero() { return dwords(0); }
  static Int bytes(int v) { return both(vreinterpretq_s32_s8(vdupq_n_s8(static_cast<int8_t>(v)))); }
  static Int dwords(int v) { return both(vdupq_n_s32(v)); }
  static Float floats(float v) { return {vdupq_n_f32(v), vdupq_n_f32(v)}; }
  static Int bit_and(Int a, Int b) { return {vandq_s32(a.low, b.low), vandq_s32(a.high, b.high)}; }
  static Int bit_or(Int a, Int b) { return {vorrq_s32(a.low, b.low), vorrq_s32(a.high, b.high)}; }
  static Int bit_xor(Int a, Int b) { return {veorq_s32(a.low, b.low), veorq_s32(a.high, b.high)}; }
  static Int add_int(Int a, Int b) { return {vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)}; }
  static Int sub(Int a, Int b) { return {vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)}; }
  // The instructions accept only shifts by 1 to 31, so a shift by 0 is skipped.
  template <int n>
  static Int shift_left(Int v) {
    if constexpr (n == 0)
      return v;
    else
      return {vshlq_n_s32(v.low, n), vshlq_n_s32(v.high, n)};
  }
  template <int n>
  static Int shift_right(Int v) {
    if constexpr (n == 0)
      return v;
    else
      return {shift_right_unsigned<n>(v.low), shift_right_unsigned<n>(v.high)};
  }
  template <int n>
  static Int shift_right_signed(Int v) {
    if constexpr (n == 0)
      return v;
    else
      return {vshrq_n_s32(v.low, n), vshrq_n_s32(v.high, n)};
  }
  // Reinterprets the bits.
  static Float as_float(Int v) { return {vreinterpretq_f32_s32(v.low), vreinterpretq_f32_s32(v.high)}; }
  static Float to_float(Int v) { return {vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)}; }
  static Float add(Float a, Float b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
  static Float sub_float(Float a, Float b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
  static Float mul(Float a, Float b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
  static Float fma(Float a, Float b, Float c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
  }
  static Float negate(Float v) { return {vnegq_f32(v.low), vnegq_f32(v.high)}; }
  static Int broadcast_dword(const std::byte* p) {
    int v;
    __builtin_memcpy(&v, p, sizeof v);
    return dwords(v);
  }
  static Float broadcast_float(const std::byte* p) {
    float v;
    __builtin_memcpy(&v, p, sizeof v);
    return floats(v);
  }

  // Convert the IEEE halves in the low (or high) 16 bits of each dword to floats.
  static Float low_half(Int v) { return {halves(vmovn_s32(v.low)), halves(vmovn_s32(v.high))}; }
  static Float high_half(Int v) { return {halves(vshrn_n_s32(v.low, 16)), halves(vshrn_n_s32(v.high, 16))}; }
  static float32x4_t halves(int16x4_t v) { return vcvt_f32_f16(vreinterpret_f16_s16(v)); }

  // Loads 16 bytes of every row and transposes 4x4 dwords.
  [[gnu::always_inline]] static void load_rows(const RowBlocks& rows, int offset, Int* out) {
    int32x4_t columns[2][4];
    for (int half = 0; half < 2; ++half) load_four(rows, 4 * half, offset, columns[half]);
    for (int i = 0; i < 4; ++i) out[i] = {columns[0][i], columns[1][i]};
  }
  [[gnu::always_inline]] static void load_four(const RowBlocks& rows, int first, int offset, int32x4_t* out) {
    const size_t at = rows.offset + static_cast<size_t>(offset);
    int32x4_t row[4];
    for (int i = 0; i < 4; ++i) row[i] = vreinterpretq_s32_u8(load16(rows.row[first + i] + at));
    const int32x4_t a = vtrn1q_s32(row[0], row[1]), b = vtrn2q_s32(row[0], row[1]);
    const int32x4_t c = vtrn1q_s32(row[2], row[3]), d = vtrn2q_s32(row[2], row[3]);
    out[0] = low_pairs(a, c);
    out[1] = low_pairs(b, d);
    out[2] = high_pairs(a, c);
    out[3] = high_pairs(b, d);
  }

  [[gnu::always_inline]] static Int load_dword(const RowBlocks& rows, int offset) {
    int32_t v[8];
    const size_t at = rows.offset + static_cast<size_t>(offset);
    for (int r = 0; r < 8; ++r) __builtin_memcpy(&v[r], rows.row[r] + at, 4);
    return {vld1q_s32(v), vld1q_s32(v + 4)};
  }

  // Loads 16 bytes of row i and of row 4 + i.
  [[gnu::always_inline]] static Int load_16(const RowBlocks& rows, int i, size_t offset) {
    const size_t at = rows.offset + offset;
    return {vreinterpretq_s32_u8(load16(rows.row[i] + at)),
            vreinterpretq_s32_u8(load16(rows.row[4 + i] + at))};
  }
  static Int first_dwords(const RowBlocks& rows) { return load_dword(rows, 0); }

  // Sums the four dwords of each row. part[i] holds the dwords of rows i and 4 + i.
  static Int add_up(const Int* part) {
    return {vpaddq_s32(vpaddq_s32(part[0].low, part[1].low), vpaddq_s32(part[2].low, part[3].low)),
            vpaddq_s32(vpaddq_s32(part[0].high, part[1].high), vpaddq_s32(part[2].high, part[3].high))};
  }

  static Int table(const int8_t* values) { return both(vreinterpretq_s32_s8(vld1q_s8(values))); }
  static Int look_up(Int table, Int index) {
    return {look_up(table.low, index.low), look_up(table.low, index.high)};
  }
  static int32x4_t look_up(int32x4_t table, int32x4_t index) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table), vreinterpretq_u8_s32(index)));
  }

  // Spreads bits 4i..4i+3 of every dword to the four bytes of the same dword. A byte becomes `value` if its
  // bit is set, else 0.
  static Int spread_bits(Int bits, int i, int value) {
    static constexpr uint8_t kPlaces[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    const uint8x16_t places = vaddq_u8(vld1q_u8(kPlaces), vdupq_n_u8(static_cast<uint8_t>(i / 2)));
    const uint8x16_t mask = vreinterpretq_u8_u32(vdupq_n_u32(i % 2 == 0 ? 0x08040201u : 0x80402010u));
    const uint8x16_t values = vdupq_n_u8(static_cast<uint8_t>(value));
    const auto spread = [&](int32x4_t four) {
      const uint8x16_t byte = vqtbl1q_u8(vreinterpretq_u8_s32(four), places);
      return vreinterpretq_s32_u8(vandq_u8(vtstq_u8(byte, mask), values));
    };
    return {spread(bits.low), spread(bits.high)};
  }

  static Float load_floats(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static Float load_floats(const float* p, int n) {
    if (n == kLanes) return load_floats(p);
    float padded[kLanes] = {};
    __builtin_memcpy(padded, p, static_cast<size_t>(n) * sizeof(float));
    return load_floats(padded);
  }
  static void store_floats(float* p, Float v, int n) {
    float all[kLanes];
    float* to = n == kLanes ? p : all;
    vst1q_f32(to, v.low);
    vst1q_f32(to + 4, v.high);
    if (n != kLanes) __builtin_memcpy(p, all, static_cast<size_t>(n) * sizeof(float));
  }
  static float total(const Float* sums) {
    const Float v = add(sums[0], sums[1]);
    const float32x4_t four = vaddq_f32(v.low, v.high);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }

  static Int both(int32x4_t v) { return {v, v}; }
  template <int n>
  static int32x4_t shift_right_unsigned(int32x4_t v) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(v), n));
  }
  static int32x4_t low_pairs(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vtrn1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
  }
  static int32x4_t high_pairs(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vtrn2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
  }
  static uint8x16_t load16(const std::byte* p) { return vld1q_u8(reinterpret_cast<const uint8_t*>(p)); }

  struct LoadF32 {
    static constexpr int kBytes = 4;
    static Float full(const std::byte* p) {
      return {vreinterpretq_f32_u8(load16(p)), vreinterpretq_f32_u8(load16(p + 16))};
    }
    static Float part(const std::byte* p, int n) {
      alignas(16) std::byte padded[32] = {};
      __builtin_memcpy(padded, p, static_cast<size_t>(n) * 4);
      return full(padded);
    }
  };

  /// Loads weights of two bytes; Widen::four converts four of them to floats.
  template <class Widen>
  struct Load16 {
    static constexpr int kBytes = 2;
    static Float full(const std::byte* p) {
      const uint16x8_t v = vreinterpretq_u16_u8(load16(p));
      return {Widen::four(vget_low_u16(v)), Widen::four(vget_high_u16(v))};
    }
    static Float part(const std::byte* p, int n) {
      alignas(16) std::byte padded[16] = {};
      __builtin_memcpy(padded, p, static_cast<size_t>(n) * 2);
      return full(padded);
    }
  };
  struct WidenHalf {
    static float32x4_t four(uint16x4_t v) { return vcvt_f32_f16(vreinterpret_f16_u16(v)); }
  };
  struct WidenBfloat {
    static float32x4_t four(uint16x4_t v) { return vreinterpretq_f32_u32(vshll_n_u16(v, 16)); }
  };
  using LoadF16 = Load16<WidenHalf>;
  using LoadBF16 = Load16<WidenBfloat>;
};

/// The quants of half a span, as 16-bit words, and their sum.
struct HalfSpan {
  int16x8_t first, second;
  int sum;
};

/// Quantizes 16 values, rounded to nearest even.
HalfSpan quantize_16(const float* values, float inverse) {
  int32x4_t q[4];
  for (int i = 0; i < 4; ++i) q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(values + 4 * i), inverse));
  const int sum = vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
  return {vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1])), vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3])),
          sum};
}

/// See quantize_activation_row().
int32_t largest_bits(const float* x) {
  uint32x4_t max = vdupq_n_u32(0);
  for (int k = 0; k < kActivationSpan; k += 4) {
    max = vmaxq_u32(max, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + k))));
  }
  return static_cast<int32_t>(vmaxvq_u32(max));
}

}  // namespace
}  // namespace hearth
