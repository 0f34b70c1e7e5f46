// Sixteen float lanes in plain C++, for processors without AVX2 and as the reference for the other ISAs.
//
// lanes_avx2.h, lanes_avx512.h and lanes_neon.h have the same interface, which rows_inl.h and attention_inl.h
// use. Everything is in an anonymous namespace: each ISA's source file gets its own copies, so that the
// linker cannot use code compiled for one processor on another.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/quant/half.h"

namespace hearth {
namespace {

/// Functions whose names end in _n REQUIRE 0 < n < 16. They neither read nor write memory for lanes from n
/// on; loads set these lanes to 0.
struct Lanes {
  // Limits of attention's inner tiles. kAccumulators: the maximum number of sums (rows times columns) of a
  // tile with at least two columns. kMaxRows: the maximum number of rows of a tile.
  static constexpr int kAccumulators = 6;
  static constexpr int kMaxRows = 6;

  float lane[16];

  template <class F>
  static Lanes each(F f) {
    Lanes out;
    for (int i = 0; i < 16; ++i) out.lane[i] = f(i);
    return out;
  }

  static Lanes all(float x) {
    return each([&](int) { return x; });
  }
  static Lanes load(const float* x) {
    return each([&](int i) { return x[i]; });
  }
  static Lanes load_n(const float* x, int n) {
    return each([&](int i) { return i < n ? x[i] : 0.0f; });
  }
  static void store(Lanes v, float* out) { std::memcpy(out, v.lane, sizeof v.lane); }
  static void store_n(Lanes v, float* out, int n) {
    for (int i = 0; i < n; ++i) out[i] = v.lane[i];
  }
  static Lanes load_half(const uint16_t* x) {
    return each([&](int i) { return widen(x[i]); });
  }
  static Lanes load_half_n(const uint16_t* x, int n) {
    return each([&](int i) { return i < n ? widen(x[i]) : 0.0f; });
  }
  /// Returns the half x in every lane, as a float.
  static Lanes all_half(uint16_t x) { return all(widen(x)); }
  static Lanes load_int8(const int8_t* x) {
    return each([&](int i) { return static_cast<float>(x[i]); });
  }
  static Lanes load_int8_n(const int8_t* x, int n) {
    return each([&](int i) { return i < n ? static_cast<float>(x[i]) : 0.0f; });
  }
  static void store_half(Lanes v, uint16_t* out) {
    for (int i = 0; i < 16; ++i) out[i] = half_from_float(v.lane[i]);
  }
  static void store_half_n(Lanes v, uint16_t* out, int n) {
    for (int i = 0; i < n; ++i) out[i] = half_from_float(v.lane[i]);
  }

  static Lanes add(Lanes a, Lanes b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Lanes sub(Lanes a, Lanes b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Lanes mul(Lanes a, Lanes b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Lanes div(Lanes a, Lanes b) {
    return each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  /// Returns a * b + c. Both operations round here, because fma() is a slow call on processors without the
  /// instruction. The other ISAs round once.
  static Lanes fma(Lanes a, Lanes b, Lanes c) {
    return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
  }
  /// Returns the larger operand, or the second operand if either is NaN, as on x86.
  static Lanes max(Lanes a, Lanes b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Lanes min(Lanes a, Lanes b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  /// Rounds to the nearest whole number, ties to even. REQUIRES: |lane| < 2^22 or NaN.
  static Lanes round(Lanes a) {
    constexpr float kShift = 0x1.8p23f;  // adding it leaves no fraction bits
    return each([&](int i) { return (a.lane[i] + kShift) - kShift; });
  }
  /// 2^lane for lanes that are whole numbers in [-126, 127]; undefined for others.
  static Lanes power_of_two(Lanes a) {
    return each([&](int i) {
      const float biased = a.lane[i] + 127.0f;
      const uint32_t bits = biased >= 0.0f && biased < 256.0f ? static_cast<uint32_t>(biased) << 23 : 0u;
      float out;
      std::memcpy(&out, &bits, sizeof out);
      return out;
    });
  }
  /// Returns v, but 0 in lanes where x < low.
  static Lanes zero_below(Lanes v, Lanes x, Lanes low) {
    return each([&](int i) { return x.lane[i] < low.lane[i] ? 0.0f : v.lane[i]; });
  }
  /// Returns v in lanes below n, and `fill` in all other lanes.
  static Lanes keep_first(Lanes v, int n, Lanes fill) {
    return each([&](int i) { return i < n ? v.lane[i] : fill.lane[i]; });
  }
  static Lanes swap_pairs(Lanes a) {
    return each([&](int i) { return a.lane[i ^ 1]; });
  }

  /// Return the sum and the maximum of all lanes. Lanes 8 apart are combined first, then lanes 4, 2 and 1
  /// apart.
  static float sum(Lanes a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.lane[i] = a.lane[i] + a.lane[i + half];
    }
    return a.lane[0];
  }
  static float largest(Lanes a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
    }
    return a.lane[0];
  }

  static float square_root(float x) { return std::sqrt(x); }

 private:
  /// Like float_from_half(), but without branches or a call, so that the compiler can convert several at
  /// once. The bits of the half are moved to their positions in a float. A multiplication then corrects the
  /// exponent's bias, even for subnormal halves (Fabian Giesen 2012).
  static float widen(uint16_t half) {
    const uint32_t magnitude_bits = static_cast<uint32_t>(half & 0x7fff) << 13;
    float magnitude;
    std::memcpy(&magnitude, &magnitude_bits, sizeof magnitude);
    magnitude *= 0x1p112f;
    uint32_t bits;
    std::memcpy(&bits, &magnitude, sizeof bits);
    bits = magnitude_bits >= 0x0f800000u ? magnitude_bits | 0x7f800000u : bits;  // infinite or NaN
    bits |= static_cast<uint32_t>(half & 0x8000) << 16;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    return magnitude;
  }
};

}  // namespace
}  // namespace hearth
