// Sixteen float lanes in one AVX-512 register. lanes_scalar.h documents the interface.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hearth {
namespace {

struct Lanes {
  // AVX-512 has 32 registers: a tile takes 24 for sums and four for the values of a row.
  static constexpr int kAccumulators = 24;
  static constexpr int kMaxRows = 6;

  __m512 v;

  static Lanes all(float x) { return {_mm512_set1_ps(x)}; }
  static Lanes load(const float* x) { return {_mm512_loadu_ps(x)}; }
  static Lanes load_n(const float* x, int n) { return {_mm512_maskz_loadu_ps(first(n), x)}; }
  static void store(Lanes a, float* out) { _mm512_storeu_ps(out, a.v); }
  static void store_n(Lanes a, float* out, int n) { _mm512_mask_storeu_ps(out, first(n), a.v); }
  static Lanes load_half(const uint16_t* x) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))};
  }
  static Lanes load_half_n(const uint16_t* x, int n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), x))};
  }
  static Lanes all_half(uint16_t x) { return {_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(x)))}; }
  static Lanes load_int8(const int8_t* x) {
    return from_int8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  }
  static Lanes load_int8_n(const int8_t* x, int n) { return from_int8(_mm_maskz_loadu_epi8(first(n), x)); }
  static void store_half(Lanes a, uint16_t* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), to_half(a.v));
  }
  static void store_half_n(Lanes a, uint16_t* out, int n) {
    _mm256_mask_storeu_epi16(out, first(n), to_half(a.v));
  }

  static Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
  static Lanes sub(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static Lanes mul(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static Lanes div(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Lanes max(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Lanes min(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Lanes round(Lanes a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static Lanes power_of_two(Lanes a) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
  }
  static Lanes zero_below(Lanes a, Lanes x, Lanes low) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, low.v, _CMP_NLT_UQ), a.v)};
  }
  static Lanes keep_first(Lanes a, int n, Lanes fill) { return {_mm512_mask_mov_ps(fill.v, first(n), a.v)}; }
  static Lanes swap_pairs(Lanes a) { return {_mm512_permute_ps(a.v, 0xb1)}; }

  static float sum(Lanes a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(Lanes a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

 private:
  /// Returns the mask of the first n of 16 lanes. REQUIRES: 0 <= n <= 16.
  static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static Lanes from_int8(__m128i x) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x))}; }
  static __m256i to_half(__m512 x) {
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
};

}  // namespace
}  // namespace hearth
