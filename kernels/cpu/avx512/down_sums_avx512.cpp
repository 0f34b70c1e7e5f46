// DownSumsKernels for AVX-512 F, BW, DQ and VL: sixteen products, and two registers of eight integers each.
//
// Compiled with AVX-512 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx512/strips_avx512.h"
#include "kernels/cpu/simd/down_sums.h"

namespace hearth {
namespace {

struct Avx512Sums : Avx512Down {
  struct Sums {
    __m512i v[4];  // columns 0..7 and so on
  };
  /// Products come in units of 2^-36.
  static float folded(float value) { return value * kUnitsOfOne; }
  template <bool>
  static Sums load_sums(const int64_t* p) {
    return {{_mm512_loadu_si512(p), _mm512_loadu_si512(p + 8), _mm512_loadu_si512(p + 16),
             _mm512_loadu_si512(p + 24)}};
  }
  template <bool>
  static void store_sums(const Sums& s, int, int64_t* p) {
    for (int i = 0; i < 4; ++i) _mm512_storeu_si512(p + 8 * i, s.v[i]);
  }
  [[gnu::always_inline]] static void add_product(float value, Strip weights, Sums& s) {
    add_half(value, weights.low, s.v[0], s.v[1]);
    add_half(value, weights.high, s.v[2], s.v[3]);
  }

 private:
  [[gnu::always_inline]] static void add_half(float value, __m512 weights, __m512i& low, __m512i& high) {
    // Of what is not a number the minimum is the second operand.
    const __m512 bound = _mm512_set1_ps(kContributionBound * kUnitsOfOne);
    const __m512 product = _mm512_min_ps(_mm512_mul_ps(_mm512_set1_ps(value), weights), bound);
    const __m512 bounded = _mm512_max_ps(product, _mm512_set1_ps(-kContributionBound * kUnitsOfOne));
    low = _mm512_add_epi64(low, _mm512_cvtps_epi64(_mm512_castps512_ps256(bounded)));
    high = _mm512_add_epi64(high, _mm512_cvtps_epi64(_mm512_extractf32x8_ps(bounded, 1)));
  }
};

}  // namespace

const DownSumsKernels kDownSumsAvx512 = down_sums_table<Avx512Sums>();

}  // namespace hearth
