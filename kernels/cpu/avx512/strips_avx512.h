// Decodes 32 weights of the down projection at a time, for AVX-512 F, BW, DQ and VL: a strip of 32 floats is
// two registers.
//
// Defines the class S of the templates in kernels/cpu/simd/down_*.h. Everything is in an anonymous namespace:
// each source file of the ISA gets its own copies, so that the linker cannot use code compiled for one
// processor on another.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/down_strips.h"

namespace hearth {
namespace {

struct Avx512Down {
  struct Strip {
    __m512 low, high;  // columns 0..15 and 16..31
  };
  /// The values of the 16 possible 4-bit codes as floats, in one register.
  using Values = __m512;
  static constexpr int kSumStrips = 4;  // 8 sums, enough to hide the latency of multiply-adds

  static Strip zero() { return {_mm512_setzero_ps(), _mm512_setzero_ps()}; }
  static Strip load(const float* p) { return {_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16)}; }
  static void store(Strip s, float* p) {
    _mm512_storeu_ps(p, s.low);
    _mm512_storeu_ps(p + 16, s.high);
  }
  static Strip load_nibbled(const float* p) { return load(p); }
  static void store_nibbled(Strip s, float* p) { store(s, p); }
  static Strip halves_nibbled(const std::byte* p) { return halves(p); }
  static Strip add(Strip a, Strip b) { return {_mm512_add_ps(a.low, b.low), _mm512_add_ps(a.high, b.high)}; }
  static Strip mul(Strip a, Strip b) { return {_mm512_mul_ps(a.low, b.low), _mm512_mul_ps(a.high, b.high)}; }
  static Strip halves_of(float low, float high) { return {_mm512_set1_ps(low), _mm512_set1_ps(high)}; }
  static Strip fma(float a, Strip b, Strip c) {
    const __m512 all = _mm512_set1_ps(a);
    return {_mm512_fmadd_ps(all, b.low, c.low), _mm512_fmadd_ps(all, b.high, c.high)};
  }
  static Strip fma_strips(Strip a, Strip b, Strip c) {
    return {_mm512_fmadd_ps(a.low, b.low, c.low), _mm512_fmadd_ps(a.high, b.high, c.high)};
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
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))));
  }
  static Values plain(Values v) { return v; }
  static Values scaled(Values v, float scale) { return _mm512_mul_ps(v, _mm512_set1_ps(scale)); }
  static Values raised(Values v, float min) { return _mm512_add_ps(v, _mm512_set1_ps(min)); }
  /// Looks up the low nibbles of 16 bytes, then the high nibbles. Indices need no mask, because the
  /// permutation uses only their lowest four bits.
  static Strip nibbles(const std::byte* p, Values v) {
    const __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_permutexvar_ps(index, v), _mm512_permutexvar_ps(_mm512_srli_epi32(index, 4), v)};
  }
  static Strip bytes(const std::byte* p) {
    const __m128i* at = reinterpret_cast<const __m128i*>(p);
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at))),
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at + 1)))};
  }
  static Strip times(Strip s, float scale) {
    const __m512 all = _mm512_set1_ps(scale);
    return {_mm512_mul_ps(s.low, all), _mm512_mul_ps(s.high, all)};
  }
  static Strip floats(const std::byte* p) { return {_mm512_loadu_ps(p), _mm512_loadu_ps(p + 64)}; }
  static Strip halves(const std::byte* p) {
    return {_mm512_cvtph_ps(words(p)), _mm512_cvtph_ps(words(p + 32))};
  }
  static Strip bfloats(const std::byte* p) { return {widen(words(p)), widen(words(p + 32))}; }

  static uint64_t not_below(const float* x, const float* sizes, float at_least) {
    const __m512 limit = _mm512_set1_ps(at_least);
    uint64_t bits = 0;
    for (int i = 0; i < 32; i += 16) {
      __m512 score = _mm512_loadu_ps(x + i);
      if (sizes != nullptr) score = _mm512_mul_ps(_mm512_abs_ps(score), _mm512_loadu_ps(sizes + i));
      bits |= uint64_t{_mm512_cmp_ps_mask(score, limit, _CMP_NLT_UQ)} << i;
    }
    return bits;
  }

 private:
  static __m256i words(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m512 widen(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
};

}  // namespace
}  // namespace hearth
