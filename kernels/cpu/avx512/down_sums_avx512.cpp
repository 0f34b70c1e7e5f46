// DownSumsKernels for AVX-512 F, BW, DQ and VL.
//
// This file is compiled with AVX-512 enabled, so only the table may have external linkage.
#include "kernels/cpu/avx512/strips_avx512.h"
#include "kernels/cpu/simd/down_sums.h"
#include "kernels/cpu/simd/terms_x86.h"

namespace hearth {
namespace {

struct Avx512Sums : Avx512Down {
  static Strip all(float value) { return {_mm512_set1_ps(value), _mm512_set1_ps(value)}; }
  static Strip all_bits(uint32_t bits) { return all(__builtin_bit_cast(float, bits)); }
  static Strip sub(Strip a, Strip b) { return {_mm512_sub_ps(a.low, b.low), _mm512_sub_ps(a.high, b.high)}; }
  static Strip add_bits(Strip a, Strip b) { return {add_bits(a.low, b.low), add_bits(a.high, b.high)}; }
  /// Returns differing | (a ^ b).
  static Strip or_differing(Strip differing, Strip a, Strip b) {
    return {or_differing(differing.low, a.low, b.low), or_differing(differing.high, a.high, b.high)};
  }
  static bool exponents(Strip bits) {
    const __m512i any = _mm512_castps_si512(_mm512_or_ps(bits.low, bits.high));
    return _mm512_test_epi32_mask(any, _mm512_set1_epi32(static_cast<int>(SumParts::kExponent))) != 0;
  }

 private:
  static __m512 add_bits(__m512 a, __m512 b) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static __m512 or_differing(__m512 differing, __m512 a, __m512 b) {
    constexpr int kOrXor = 0xf6;  // the truth table of x | (y ^ z)
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        _mm512_castps_si512(differing), _mm512_castps_si512(a), _mm512_castps_si512(b), kOrXor));
  }
};

/// See down_terms.h. A register of sums has sixteen columns of a strip: the first four of each group of
/// eight, or the last four. This order results from widening and pairing bytes within quarters of registers.
struct Avx512Terms : TermsX86<Avx512Sums> {
  struct Sums {
    __m512i high[2], low[2];
  };
  static constexpr int column(int i) { return i % 16 / 4 * 8 + i / 16 * 4 + i % 4; }
  static Sums zero() {
    const __m512i z = _mm512_setzero_si512();
    return {{z, z}, {z, z}};
  }
  static Sums load_sums(const int32_t* high, const int32_t* low) {
    return {{_mm512_loadu_si512(high), _mm512_loadu_si512(high + 16)},
            {_mm512_loadu_si512(low), _mm512_loadu_si512(low + 16)}};
  }
  static void store_sums(const Sums& sums, int32_t* high, int32_t* low) {
    for (int i = 0; i < 2; ++i) {
      _mm512_storeu_si512(high + 16 * i, sums.high[i]);
      _mm512_storeu_si512(low + 16 * i, sums.low[i]);
    }
  }
  template <int kUnits>
  static void add(Sums& sums, Codes a, Codes b, const int32_t* high, const int32_t* low) {
    const __m512i wide_a = _mm512_cvtepi8_epi16(a), wide_b = _mm512_cvtepi8_epi16(b);
    const __m512i highs = both<kUnits>(high), lows = both<kUnits>(low);
    add_products(sums, 0, _mm512_unpacklo_epi16(wide_a, wide_b), highs, lows);
    add_products(sums, 1, _mm512_unpackhi_epi16(wide_a, wide_b), highs, lows);
  }
  /// Adds the products of pairs of codes and terms to `sums`. Here the columns of `sums` are in ascending
  /// order, not in the order of column().
  static void add_pairs(Sums& sums, const int16_t* codes, TermPair high, TermPair low) {
    add_products(sums, 0, _mm512_loadu_si512(codes), _mm512_set1_epi32(high.first),
                 _mm512_set1_epi32(low.first));
    add_products(sums, 1, _mm512_loadu_si512(codes + 32), _mm512_set1_epi32(high.second),
                 _mm512_set1_epi32(low.second));
  }

 private:
  /// Broadcasts two numbers, eight times each, or one number sixteen times.
  template <int kUnits>
  static __m512i both(const int32_t* pairs) {
    const __m512i first = _mm512_set1_epi32(pairs[0]);
    if constexpr (kUnits == 1) return first;
    return _mm512_mask_set1_epi32(first, 0xff00, pairs[kUnits - 1]);
  }
  static void add_products(Sums& sums, int i, __m512i codes, __m512i high, __m512i low) {
    sums.high[i] = _mm512_dpwssd_epi32(sums.high[i], codes, high);
    sums.low[i] = _mm512_dpwssd_epi32(sums.low[i], codes, low);
  }
};

}  // namespace

const DownSumsKernels kDownSumsAvx512 = down_sums_table<Avx512Sums, Avx512Terms>();

}  // namespace hearth
