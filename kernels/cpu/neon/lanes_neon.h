// Sixteen float lanes in four NEON registers. lanes_scalar.h documents the interface.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace hearth {
namespace {

struct Lanes {
  // NEON has 32 registers, and a Lanes takes four. A tile of six rows and one column needs 29 registers: 24
  // for sums, four for a value and one for the factors. Three rows and two columns would need 33 registers:
  // 24 for sums, eight for values and one for the factors. So kAccumulators is less than 6.
  static constexpr int kAccumulators = 5;
  static constexpr int kMaxRows = 6;

  float32x4_t v[4];  // lanes 0-3, 4-7, 8-11, 12-15

  template <class F>
  [[gnu::always_inline]] static Lanes each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static Lanes all(float x) {
    return each([&](int) { return vdupq_n_f32(x); });
  }
  static Lanes load(const float* x) {
    return each([&](int i) { return vld1q_f32(x + 4 * i); });
  }
  static Lanes load_n(const float* x, int n) {
    float padded[16] = {};  // NEON has no masked loads
    for (int i = 0; i < n; ++i) padded[i] = x[i];
    return load(padded);
  }
  static void store(Lanes a, float* out) {
    for (int i = 0; i < 4; ++i) vst1q_f32(out + 4 * i, a.v[i]);
  }
  static void store_n(Lanes a, float* out, int n) {
    float padded[16];
    store(a, padded);
    for (int i = 0; i < n; ++i) out[i] = padded[i];
  }
  static Lanes load_half(const uint16_t* x) {
    return each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + 4 * i))); });
  }
  static Lanes load_half_n(const uint16_t* x, int n) {
    uint16_t padded[16] = {};
    for (int i = 0; i < n; ++i) padded[i] = x[i];
    return load_half(padded);
  }
  static Lanes all_half(uint16_t x) {
    const float32x4_t four = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(x)));
    return {{four, four, four, four}};
  }
  static Lanes load_int8(const int8_t* x) {
    const int8x16_t bytes = vld1q_s8(x);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  }
  static Lanes load_int8_n(const int8_t* x, int n) {
    int8_t padded[16] = {};
    for (int i = 0; i < n; ++i) padded[i] = x[i];
    return load_int8(padded);
  }
  static void store_half(Lanes a, uint16_t* out) {
    for (int i = 0; i < 4; ++i) vst1_u16(out + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
  }
  static void store_half_n(Lanes a, uint16_t* out, int n) {
    uint16_t padded[16];
    store_half(a, padded);
    for (int i = 0; i < n; ++i) out[i] = padded[i];
  }

  static Lanes add(Lanes a, Lanes b) {
    return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
  }
  static Lanes sub(Lanes a, Lanes b) {
    return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
  }
  static Lanes mul(Lanes a, Lanes b) {
    return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
  }
  static Lanes div(Lanes a, Lanes b) {
    return each([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
  }
  static Lanes fma(Lanes a, Lanes b, Lanes c) {
    return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
  }
  // Uses comparisons and selects. The instructions fmax and fmin would return NaN if either operand is NaN.
  static Lanes max(Lanes a, Lanes b) {
    return each([&](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
  }
  static Lanes min(Lanes a, Lanes b) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
  }
  static Lanes round(Lanes a) {
    return each([&](int i) { return vrndnq_f32(a.v[i]); });
  }
  static Lanes power_of_two(Lanes a) {
    return each([&](int i) {
      const int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(a.v[i]), vdupq_n_s32(127));
      return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
    });
  }
  static Lanes zero_below(Lanes a, Lanes x, Lanes low) {
    return each([&](int i) { return clear(a.v[i], vcltq_f32(x.v[i], low.v[i])); });
  }
  static Lanes keep_first(Lanes a, int n, Lanes fill) {
    return each([&](int i) { return vbslq_f32(first(n - 4 * i), a.v[i], fill.v[i]); });
  }
  static Lanes swap_pairs(Lanes a) {
    return each([&](int i) { return vrev64q_f32(a.v[i]); });
  }

  static float sum(Lanes a) {
    const float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  static float largest(Lanes a) {
    const Lanes eight = max(a, {{a.v[2], a.v[3], a.v[2], a.v[3]}});
    const Lanes four = max(eight, {{eight.v[1], eight.v[1], eight.v[1], eight.v[1]}});
    float lane[4];
    vst1q_f32(lane, four.v[0]);
    const float even = lane[0] > lane[2] ? lane[0] : lane[2], odd = lane[1] > lane[3] ? lane[1] : lane[3];
    return even > odd ? even : odd;
  }

  static float square_root(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

 private:
  /// Returns a mask with all bits set in the first n of 4 lanes. n is clamped to [0, 4].
  static uint32x4_t first(int n) {
    const int32_t places[4] = {0, 1, 2, 3};
    return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(places));
  }
  static float32x4_t clear(float32x4_t a, uint32x4_t where) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), where));
  }
};

}  // namespace
}  // namespace hearth
