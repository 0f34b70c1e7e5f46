// DownSumsKernels for AVX2 with FMA and F16C.
//
// This file is compiled with AVX2 enabled, so only the table may have external linkage.
#include "kernels/cpu/avx2/strips_avx2.h"
#include "kernels/cpu/simd/down_sums.h"
#include "kernels/cpu/simd/terms_x86.h"

namespace hearth {
namespace {

struct Avx2Sums : Avx2Down {
  static Strip all(float value) {
    return each([&](int) { return _mm256_set1_ps(value); });
  }
  static Strip all_bits(uint32_t bits) { return all(__builtin_bit_cast(float, bits)); }
  static Strip sub(Strip a, Strip b) {
    return each([&](int i) { return _mm256_sub_ps(a.v[i], b.v[i]); });
  }
  static Strip add_bits(Strip a, Strip b) {
    return each([&](int i) {
      return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v[i]), _mm256_castps_si256(b.v[i])));
    });
  }
  /// Returns a strip whose first register is differing.v[0], combined (by OR) with all registers of a ^ b.
  /// The other registers of the result are not used.
  static Strip or_differing(Strip differing, Strip a, Strip b) {
    for (int i = 0; i < 4; ++i) {
      differing.v[0] = _mm256_or_ps(differing.v[0], _mm256_xor_ps(a.v[i], b.v[i]));
    }
    return differing;
  }
  static bool exponents(Strip bits) {
    const __m256i exponent = _mm256_set1_epi32(static_cast<int>(SumParts::kExponent));
    return _mm256_testz_si256(_mm256_castps_si256(bits.v[0]), exponent) == 0;
  }
};

/// See down_terms.h. Each of the four registers of sums has eight columns of a strip. Register 0 has columns
/// 0..3 and 8..11, register 1 has 4..7 and 12..15, register 2 has 16..19 and 24..27, and register 3 has
/// 20..23 and 28..31. This order results from widening and pairing bytes within halves of registers.
struct Avx2Terms : TermsX86<Avx2Sums> {
  struct Sums {
    __m256i high[4], low[4];
  };
  static constexpr int column(int i) {
    const int of_register = i / 8, own = i % 8;
    return of_register / 2 * 16 + of_register % 2 * 4 + own % 4 + own / 4 * 8;
  }
  static Sums zero() {
    const __m256i z = _mm256_setzero_si256();
    return {{z, z, z, z}, {z, z, z, z}};
  }
  static Sums load_sums(const int32_t* high, const int32_t* low) {
    Sums sums;
    for (int i = 0; i < 4; ++i) {
      sums.high[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high + 8 * i));
      sums.low[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low + 8 * i));
    }
    return sums;
  }
  static void store_sums(const Sums& sums, int32_t* high, int32_t* low) {
    for (int i = 0; i < 4; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + 8 * i), sums.high[i]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + 8 * i), sums.low[i]);
    }
  }
  template <int kUnits>
  static void add(Sums& sums, Codes a, Codes b, const int32_t* high, const int32_t* low) {
    const __m256i a0 = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
                  a1 = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1)),
                  b0 = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)),
                  b1 = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1));
    add_products(sums, 0, _mm256_unpacklo_epi16(a0, b0), high[0], low[0]);
    add_products(sums, 1, _mm256_unpackhi_epi16(a0, b0), high[0], low[0]);
    add_products(sums, 2, _mm256_unpacklo_epi16(a1, b1), high[kUnits - 1], low[kUnits - 1]);
    add_products(sums, 3, _mm256_unpackhi_epi16(a1, b1), high[kUnits - 1], low[kUnits - 1]);
  }
  /// Adds the products of pairs of codes and terms to `sums`. Here the columns of `sums` are in ascending
  /// order, not in the order of column().
  static void add_pairs(Sums& sums, const int16_t* codes, TermPair high, TermPair low) {
    for (int i = 0; i < 4; ++i) {
      const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 16 * i));
      add_products(sums, i, eight, i < 2 ? high.first : high.second, i < 2 ? low.first : low.second);
    }
  }

 private:
  static void add_products(Sums& sums, int i, __m256i codes, int32_t high, int32_t low) {
    sums.high[i] = _mm256_add_epi32(sums.high[i], _mm256_madd_epi16(codes, _mm256_set1_epi32(high)));
    sums.low[i] = _mm256_add_epi32(sums.low[i], _mm256_madd_epi16(codes, _mm256_set1_epi32(low)));
  }
};

}  // namespace

const DownSumsKernels kDownSumsAvx2 = down_sums_table<Avx2Sums, Avx2Terms>();

}  // namespace hearth
