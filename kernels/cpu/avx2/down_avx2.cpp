// DownKernels for AVX2 with FMA and F16C: a strip of 32 floats is four registers.
//
// Compiled with AVX2 enabled: nothing in this file may have external linkage but the table.
#include <immintrin.h>

#include "kernels/cpu/simd/down_table.h"

namespace hearth {
namespace {

struct Avx2Down {
  struct Strip {
    __m256 v[4];
  };
  /// What sixteen codes stand for, as bytes; and the same times a scale, and raised by a min.
  using Values = __m128i;
  struct Scaled {
    __m128i values;
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
  /// 16 bytes of nibbles to the 32 bytes that they stand for.
  static void look_up(const uint8_t* p, const int8_t* table, int8_t* out) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), mask = _mm_set1_epi8(15);
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m128i* to = reinterpret_cast<__m128i*>(out);
    _mm_storeu_si128(to, _mm_shuffle_epi8(values, _mm_and_si128(raw, mask)));
    _mm_storeu_si128(to + 1, _mm_shuffle_epi8(values, _mm_and_si128(_mm_srli_epi16(raw, 4), mask)));
  }
  static Values values(const int8_t* v) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(v)); }
  static Values plain(Values v) { return v; }
  static Scaled scaled(Values v, float scale) { return {v, scale}; }
  static Raised raised(Scaled s, float min) { return {s, min}; }
  static Strip nibbles(const std::byte* p, Values v) {
    const __m128i raw = load16(p), mask = _mm_set1_epi8(15);
    const __m128i low = _mm_shuffle_epi8(v, _mm_and_si128(raw, mask));
    const __m128i high = _mm_shuffle_epi8(v, _mm_and_si128(_mm_srli_epi16(raw, 4), mask));
    return widen_bytes(low, high);
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
  static __m128i load16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static __m256 widen(__m128i eight) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)); }
  static Strip widen_bytes(__m128i a, __m128i b) {
    return {{widen(a), widen(_mm_unpackhi_epi64(a, a)), widen(b), widen(_mm_unpackhi_epi64(b, b))}};
  }
};

}  // namespace

const DownKernels kDownKernelsAvx2 = down_table<Avx2Down>();

}  // namespace hearth
