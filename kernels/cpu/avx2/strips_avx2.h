// Decodes 32 weights of the down projection at a time, for AVX2 with FMA and F16C: a strip of 32 floats is
// four registers.
//
// Defines the class S of the templates in kernels/cpu/simd/down_*.h. Everything is in an anonymous namespace:
// each source file of the ISA gets its own copies, so that the linker cannot use code compiled for one
// processor on another.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/down_strips.h"

namespace hearth {
namespace {

struct Avx2Down {
  struct Strip {
    __m256 v[4];
  };
  /// The values of the 16 possible 4-bit codes, as bfloat16s. They are exact. Low and high bytes are in
  /// separate registers.
  struct Values {
    __m256i low, high;
  };
  struct Scaled {
    Values values;
    float scale;
  };
  struct Raised {
    Scaled scaled;
    float min;
  };
  static constexpr int kSumStrips = 2;  // 8 sums, enough to hide the latency of multiply-adds

  template <class F>
  [[gnu::always_inline]] static Strip each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static Strip zero() {
    return each([](int) { return _mm256_setzero_ps(); });
  }
  static Strip load(const float* p) {
    return each([&](int i) { return _mm256_loadu_ps(p + 8 * i); });
  }
  static void store(Strip s, float* p) {
    for (int i = 0; i < 4; ++i) _mm256_storeu_ps(p + 8 * i, s.v[i]);
  }
  // Loads floats in the order of a nibble strip: register k holds columns 4k..4k+3 in its low half and
  // 16+4k..19+4k in its high half.
  static Strip load_nibbled(const float* p) {
    return each([&](int i) {
      return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)),
                                  _mm_loadu_ps(p + 16 + 4 * i), 1);
    });
  }
  static void store_nibbled(Strip s, float* p) {
    for (int i = 0; i < 4; ++i) {
      _mm_storeu_ps(p + 4 * i, _mm256_castps256_ps128(s.v[i]));
      _mm_storeu_ps(p + 16 + 4 * i, _mm256_extractf128_ps(s.v[i], 1));
    }
  }
  static Strip halves_nibbled(const std::byte* p) {
    return each([&](int i) {
      const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i));
      const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 32 + 8 * i));
      return _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high));
    });
  }
  static Strip add(Strip a, Strip b) {
    return each([&](int i) { return _mm256_add_ps(a.v[i], b.v[i]); });
  }
  static Strip mul(Strip a, Strip b) {
    return each([&](int i) { return _mm256_mul_ps(a.v[i], b.v[i]); });
  }
  static Strip halves_of(float low, float high) {
    return each([&](int i) { return _mm256_set1_ps(i < 2 ? low : high); });
  }
  static Strip fma(float a, Strip b, Strip c) {
    const __m256 all = _mm256_set1_ps(a);
    return each([&](int i) { return _mm256_fmadd_ps(all, b.v[i], c.v[i]); });
  }
  static Strip fma_strips(Strip a, Strip b, Strip c) {
    return each([&](int i) { return _mm256_fmadd_ps(a.v[i], b.v[i], c.v[i]); });
  }

  static float one_half(uint16_t half) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half))); }
  static void eight_halves(const uint16_t* from, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  /// Looks up 16 bytes of nibbles in a table of 16 values; writes the 32 values.
  static void look_up(const uint8_t* p, const int8_t* table, int8_t* out) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), mask = _mm_set1_epi8(15);
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m128i* to = reinterpret_cast<__m128i*>(out);
    _mm_storeu_si128(to, _mm_shuffle_epi8(values, _mm_and_si128(raw, mask)));
    _mm_storeu_si128(to + 1, _mm_shuffle_epi8(values, _mm_and_si128(_mm_srli_epi16(raw, 4), mask)));
  }
  template <const int8_t (&table)[16]>
  static Values values() {
    return {both_lanes(kBfloats<table>.low), both_lanes(kBfloats<table>.high)};
  }
  static Values plain(Values v) { return v; }
  static Scaled scaled(Values v, float scale) { return {v, scale}; }
  static Raised raised(Scaled s, float min) { return {s, min}; }
  /// Two bytes from the tables form a bfloat16, which is the upper half of a float. This is cheaper than
  /// widening a code and converting it to a float.
  static Strip nibbles(const std::byte* p, Values v) {
    const __m256i raw = _mm256_broadcastsi128_si256(load16(p));
    const __m256i shifted = _mm256_srlv_epi32(raw, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    const __m256i index = _mm256_and_si256(shifted, _mm256_set1_epi8(15)), zero = _mm256_setzero_si256();
    const __m256i low = _mm256_shuffle_epi8(v.low, index), high = _mm256_shuffle_epi8(v.high, index);
    const __m256i first = _mm256_unpacklo_epi8(low, high), second = _mm256_unpackhi_epi8(low, high);
    return {{_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, first)),
             _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, first)),
             _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, second)),
             _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, second))}};
  }
  static Strip nibbles(const std::byte* p, Scaled s) { return times(nibbles(p, s.values), s.scale); }
  static Strip nibbles(const std::byte* p, Raised r) {
    const Strip s = nibbles(p, r.scaled);
    const __m256 min = _mm256_set1_ps(r.min);
    return each([&](int i) { return _mm256_add_ps(s.v[i], min); });
  }
  static Strip bytes(const std::byte* p) { return widen_bytes(load16(p), load16(p + 16)); }
  static Strip times(Strip s, float scale) {
    const __m256 all = _mm256_set1_ps(scale);
    return each([&](int i) { return _mm256_mul_ps(s.v[i], all); });
  }
  static Strip floats(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static Strip halves(const std::byte* p) {
    return each([&](int i) { return _mm256_cvtph_ps(load16(p + 16 * i)); });
  }
  static Strip bfloats(const std::byte* p) {
    return each([&](int i) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p + 16 * i)), 16));
    });
  }

  static uint64_t not_below(const float* x, const float* sizes, float at_least) {
    const __m256 limit = _mm256_set1_ps(at_least), sign = _mm256_set1_ps(-0.0f);
    uint64_t bits = 0;
    for (int i = 0; i < 32; i += 8) {
      __m256 score = _mm256_loadu_ps(x + i);
      if (sizes != nullptr) score = _mm256_mul_ps(_mm256_andnot_ps(sign, score), _mm256_loadu_ps(sizes + i));
      const int mask = _mm256_movemask_ps(_mm256_cmp_ps(score, limit, _CMP_NLT_UQ));
      bits |= uint64_t{static_cast<uint32_t>(mask)} << i;
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
  static __m256i both_lanes(const uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static __m128i load16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static __m256 widen(__m128i eight) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)); }
  static Strip widen_bytes(__m128i a, __m128i b) {
    return {{widen(a), widen(_mm_unpackhi_epi64(a, a)), widen(b), widen(_mm_unpackhi_epi64(b, b))}};
  }
};

}  // namespace
}  // namespace hearth
