// Sixteen float lanes in two AVX2 registers. lanes_scalar.h documents the interface.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hearth {
namespace {

struct Lanes {
  // AVX2 has 16 registers, and a Lanes takes two. A tile of six rows and one column needs 15 registers: 12
  // for sums, two for a value and one for a broadcast factor. Three rows and two columns would need 17
  // registers: 12 for sums, four for values and one for a factor. So kAccumulators is less than 6.
  static constexpr int kAccumulators = 5;
  static constexpr int kMaxRows = 6;

  __m256 low, high;  // lanes 0-7 and 8-15

  static Lanes all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Lanes load(const float* x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
  static Lanes load_n(const float* x, int n) {
    // maskload does not read masked lanes. But the address x + 8 is computed only if n > 8, because computing
    // an address past the end of the array is undefined behavior.
    if (n <= 8) return {_mm256_maskload_ps(x, first(n)), _mm256_setzero_ps()};
    return {_mm256_loadu_ps(x), _mm256_maskload_ps(x + 8, first(n - 8))};
  }
  static void store(Lanes v, float* out) {
    _mm256_storeu_ps(out, v.low);
    _mm256_storeu_ps(out + 8, v.high);
  }
  static void store_n(Lanes v, float* out, int n) {
    if (n <= 8) {
      _mm256_maskstore_ps(out, first(n), v.low);
    } else {
      _mm256_storeu_ps(out, v.low);
      _mm256_maskstore_ps(out + 8, first(n - 8), v.high);
    }
  }
  static Lanes load_half(const uint16_t* x) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 8)))};
  }
  static Lanes load_half_n(const uint16_t* x, int n) {
    uint16_t padded[16] = {};  // AVX2 has no masked load of 16-bit elements
    for (int i = 0; i < n; ++i) padded[i] = x[i];
    return load_half(padded);
  }
  static Lanes all_half(uint16_t x) {
    const __m256 eight = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(x)));
    return {eight, eight};
  }
  static Lanes load_int8(const int8_t* x) {
    const auto eight = [](const int8_t* at) {
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
    };
    return {eight(x), eight(x + 8)};
  }
  static Lanes load_int8_n(const int8_t* x, int n) {
    int8_t padded[16] = {};
    for (int i = 0; i < n; ++i) padded[i] = x[i];
    return load_int8(padded);
  }
  static void store_half(Lanes v, uint16_t* out) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(v.low, kToNearest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 8), _mm256_cvtps_ph(v.high, kToNearest));
  }
  static void store_half_n(Lanes v, uint16_t* out, int n) {
    uint16_t padded[16];
    store_half(v, padded);
    for (int i = 0; i < n; ++i) out[i] = padded[i];
  }

  static Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  static Lanes sub(Lanes a, Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  static Lanes mul(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  static Lanes div(Lanes a, Lanes b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  static Lanes fma(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Lanes max(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
  static Lanes min(Lanes a, Lanes b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
  static Lanes round(Lanes a) {
    return {_mm256_round_ps(a.low, kToNearest | _MM_FROUND_NO_EXC),
            _mm256_round_ps(a.high, kToNearest | _MM_FROUND_NO_EXC)};
  }
  static Lanes power_of_two(Lanes a) { return {power_of_two(a.low), power_of_two(a.high)}; }
  static Lanes zero_below(Lanes v, Lanes x, Lanes low) {
    return {_mm256_and_ps(v.low, _mm256_cmp_ps(x.low, low.low, _CMP_NLT_UQ)),
            _mm256_and_ps(v.high, _mm256_cmp_ps(x.high, low.high, _CMP_NLT_UQ))};
  }
  static Lanes keep_first(Lanes v, int n, Lanes fill) {
    return {_mm256_blendv_ps(fill.low, v.low, _mm256_castsi256_ps(first(n))),
            _mm256_blendv_ps(fill.high, v.high, _mm256_castsi256_ps(first(n - 8)))};
  }
  static Lanes swap_pairs(Lanes a) {
    return {_mm256_permute_ps(a.low, 0xb1), _mm256_permute_ps(a.high, 0xb1)};
  }

  static float sum(Lanes a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(Lanes a) {
    const __m256 eight = _mm256_max_ps(a.low, a.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

 private:
  static constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT;

  /// Returns a mask with all bits set in the first n of 8 lanes. n is clamped to [0, 8].
  static __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m256 power_of_two(__m256 whole) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
};

}  // namespace
}  // namespace hearth
