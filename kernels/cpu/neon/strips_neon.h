// Decodes 32 weights of the down projection at a time, for NEON: a strip of 32 floats is eight registers.
//
// Defines the class S of the templates in kernels/cpu/simd/down_*.h. Everything is in an anonymous namespace:
// each source file of the ISA gets its own copies, so that the linker cannot use code compiled for one
// processor on another.
#pragma once

#include <arm_neon.h>

#include "kernels/cpu/simd/down_strips.h"

namespace hearth {
namespace {

struct NeonDown {
  struct Strip {
    float32x4_t v[8];
  };
  /// The values of the 16 possible 4-bit codes, as bfloat16s. They are exact. Low and high bytes are in
  /// separate registers.
  struct Values {
    uint8x16_t low, high;
  };
  struct Scaled {
    Values values;
    float scale;
  };
  struct Raised {
    Scaled scaled;
    float min;
  };
  static constexpr int kSumStrips = 2;  // 16 of 32 registers

  template <class F>
  [[gnu::always_inline]] static Strip each(F f) {
    return {{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)}};
  }
  static Strip zero() {
    return each([](int) { return vdupq_n_f32(0.0f); });
  }
  static Strip load(const float* p) {
    return each([&](int i) { return vld1q_f32(p + 4 * i); });
  }
  static void store(const Strip& s, float* p) {
    for (int i = 0; i < 8; ++i) vst1q_f32(p + 4 * i, s.v[i]);
  }
  static Strip load_nibbled(const float* p) { return load(p); }
  static void store_nibbled(const Strip& s, float* p) { store(s, p); }
  static Strip halves_nibbled(const std::byte* p) { return halves(p); }
  static Strip add(const Strip& a, const Strip& b) {
    return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
  }
  static Strip mul(const Strip& a, const Strip& b) {
    return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
  }
  static Strip halves_of(float low, float high) {
    return each([&](int i) { return vdupq_n_f32(i < 4 ? low : high); });
  }
  static Strip fma(float a, const Strip& b, const Strip& c) {
    return each([&](int i) { return vfmaq_n_f32(c.v[i], b.v[i], a); });
  }
  static Strip fma_strips(const Strip& a, const Strip& b, const Strip& c) {
    return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
  }

  static float one_half(uint16_t half) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
  }
  static void eight_halves(const uint16_t* from, float* to) {
    vst1q_f32(to, four_halves(vld1_u16(from)));
    vst1q_f32(to + 4, four_halves(vld1_u16(from + 4)));
  }
  /// Looks up 16 bytes of nibbles in a table of 16 values; writes the 32 values.
  static void look_up(const uint8_t* p, const int8_t* table, int8_t* out) {
    const int8x16_t values = vld1q_s8(table);
    const uint8x16_t raw = vld1q_u8(p);
    vst1q_s8(out, vqtbl1q_s8(values, vandq_u8(raw, vdupq_n_u8(15))));
    vst1q_s8(out + 16, vqtbl1q_s8(values, vshrq_n_u8(raw, 4)));
  }
  template <const int8_t (&table)[16]>
  static Values values() {
    return {vld1q_u8(kBfloats<table>.low), vld1q_u8(kBfloats<table>.high)};
  }
  static Values plain(Values v) { return v; }
  static Scaled scaled(Values v, float scale) { return {v, scale}; }
  static Raised raised(Scaled s, float min) { return {s, min}; }
  /// Two bytes from the tables form a bfloat16, which is the upper half of a float. This is cheaper than
  /// widening a code and converting it to a float.
  [[gnu::always_inline]] static Strip nibbles(const std::byte* p, Values v) {
    const uint8x16_t raw = vld1q_u8(reinterpret_cast<const uint8_t*>(p));
    Strip out;
    look_up_floats(vandq_u8(raw, vdupq_n_u8(15)), v, out.v);
    look_up_floats(vshrq_n_u8(raw, 4), v, out.v + 4);
    return out;
  }
  [[gnu::always_inline]] static Strip nibbles(const std::byte* p, Scaled s) {
    return times(nibbles(p, s.values), s.scale);
  }
  [[gnu::always_inline]] static Strip nibbles(const std::byte* p, Raised r) {
    const Strip s = nibbles(p, r.scaled);
    const float32x4_t min = vdupq_n_f32(r.min);
    return each([&](int i) { return vaddq_f32(s.v[i], min); });
  }
  [[gnu::always_inline]] static Strip bytes(const std::byte* p) {
    Strip out;
    const int8_t* at = reinterpret_cast<const int8_t*>(p);
    for (int i = 0; i < 4; ++i) {
      const int16x8_t words = vmovl_s8(vld1_s8(at + 8 * i));
      out.v[2 * i] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
      out.v[2 * i + 1] = vcvtq_f32_s32(vmovl_high_s16(words));
    }
    return out;
  }
  static Strip times(const Strip& s, float scale) {
    return each([&](int i) { return vmulq_n_f32(s.v[i], scale); });
  }
  static Strip floats(const std::byte* p) {
    return each(
        [&](int i) { return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p) + 16 * i)); });
  }
  static Strip halves(const std::byte* p) {
    return each([&](int i) { return four_halves(words(p + 8 * i)); });
  }
  static Strip bfloats(const std::byte* p) {
    return each([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(words(p + 8 * i), 16)); });
  }

  static uint64_t not_below(const float* x, const float* sizes, float at_least) {
    const float32x4_t limit = vdupq_n_f32(at_least);
    const uint32_t place_values[4] = {1, 2, 4, 8};
    const uint32x4_t places = vld1q_u32(place_values);
    uint64_t bits = 0;
    for (int i = 0; i < 32; i += 4) {
      float32x4_t score = vld1q_f32(x + i);
      if (sizes != nullptr) score = vmulq_f32(vabsq_f32(score), vld1q_f32(sizes + i));
      bits |= uint64_t{vaddvq_u32(vbicq_u32(places, vcltq_f32(score, limit)))} << i;
    }
    return bits;
  }

 private:
  /// A table's values as bfloat16s, split into low and high bytes.
  struct Bfloats {
    uint8_t low[16], high[16];
  };
  template <const int8_t (&table)[16]>
  static constexpr Bfloats kBfloats = [] {
    Bfloats out{};
    for (int i = 0; i < 16; ++i) {
      const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(table[i]));
      out.low[i] = static_cast<uint8_t>(bits >> 16);
      out.high[i] = static_cast<uint8_t>(bits >> 24);
    }
    return out;
  }();
  /// Writes the floats of sixteen codes to four registers.
  [[gnu::always_inline]] static void look_up_floats(uint8x16_t index, Values v, float32x4_t* out) {
    const uint8x16_t low = vqtbl1q_u8(v.low, index), high = vqtbl1q_u8(v.high, index);
    const uint16x8_t first = vreinterpretq_u16_u8(vzip1q_u8(low, high));
    const uint16x8_t second = vreinterpretq_u16_u8(vzip2q_u8(low, high));
    out[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(first), 16));
    out[1] = vreinterpretq_f32_u32(vshll_high_n_u16(first, 16));
    out[2] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(second), 16));
    out[3] = vreinterpretq_f32_u32(vshll_high_n_u16(second, 16));
  }
  static uint16x4_t words(const std::byte* p) {
    return vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(p)));
  }
  static float32x4_t four_halves(uint16x4_t v) { return vcvt_f32_f16(vreinterpret_f16_u16(v)); }
};

}  // namespace
}  // namespace hearth
