// Decodes 32 weights of the down projection at a time, in plain C++.
//
// Defines the class S of the templates in kernels/cpu/simd/down_*.h. Everything is in an anonymous namespace:
// each source file of the ISA gets its own copies, so that the linker cannot use code compiled for one
// processor on another.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/cpu/simd/down_strips.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

struct ScalarDown {
  struct Strip {
    float v[kStripColumns];
  };
  struct Values {
    float v[16];
  };
  static constexpr int kSumStrips = 1;

  template <class F>
  static Strip each(F f) {
    Strip out;
    for (int i = 0; i < kStripColumns; ++i) out.v[i] = f(i);
    return out;
  }
  static Strip zero() { return {}; }
  static Strip load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static void store(const Strip& s, float* p) { std::memcpy(p, s.v, sizeof s.v); }
  static Strip load_nibbled(const float* p) { return load(p); }
  static void store_nibbled(const Strip& s, float* p) { store(s, p); }
  static Strip halves_nibbled(const std::byte* p) { return halves(p); }
  static Strip add(const Strip& a, const Strip& b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  static Strip mul(const Strip& a, const Strip& b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  static Strip halves_of(float low, float high) {
    return each([&](int i) { return i < kStripColumns / 2 ? low : high; });
  }
  static Strip fma(float a, const Strip& b, const Strip& c) {
    return each([&](int i) { return std::fma(a, b.v[i], c.v[i]); });
  }
  static Strip fma_strips(const Strip& a, const Strip& b, const Strip& c) {
    return each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }

  static float one_half(uint16_t half) { return float_from_half(half); }
  static void eight_halves(const uint16_t* from, float* to) {
    for (int i = 0; i < 8; ++i) to[i] = float_from_half(from[i]);
  }
  static void look_up(const uint8_t* p, const int8_t* table, int8_t* out) {
    for (int i = 0; i < 32; ++i) out[i] = table[i < 16 ? p[i] & 15 : p[i - 16] >> 4];
  }
  template <const int8_t (&table)[16]>
  static Values values() {
    Values out;
    for (int i = 0; i < 16; ++i) out.v[i] = static_cast<float>(table[i]);
    return out;
  }
  static Values plain(const Values& v) { return v; }
  static Values scaled(Values v, float scale) {
    for (float& value : v.v) value *= scale;
    return v;
  }
  static Values raised(Values v, float min) {
    for (float& value : v.v) value += min;
    return v;
  }
  static Strip nibbles(const std::byte* p, const Values& v) {
    return each([&](int i) {
      const int byte = static_cast<int>(p[i % 16]);
      return v.v[i < 16 ? byte & 15 : byte >> 4];
    });
  }
  static Strip bytes(const std::byte* p) {
    return each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
  }
  static Strip times(const Strip& s, float scale) {
    return each([&](int i) { return s.v[i] * scale; });
  }
  static Strip floats(const std::byte* p) {
    Strip out;
    std::memcpy(out.v, p, sizeof out.v);
    return out;
  }
  static Strip halves(const std::byte* p) {
    return each([&](int i) { return float_from_half(word(p + 2 * i)); });
  }
  static Strip bfloats(const std::byte* p) {
    return each([&](int i) { return float_from_bfloat16(word(p + 2 * i)); });
  }
  static uint64_t not_below(const float* x, const float* sizes, float at_least) {
    uint64_t bits = 0;
    for (int i = 0; i < 32; ++i) {
      const float score = sizes == nullptr ? x[i] : std::fabs(x[i]) * sizes[i];
      bits |= uint64_t{!(score < at_least)} << i;
    }
    return bits;
  }

 private:
  static uint16_t word(const std::byte* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
  }
};

}  // namespace
}  // namespace hearth
