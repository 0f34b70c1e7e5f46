// DownSumsKernels for AVX-512 F, BW, DQ and VL.
//
// Compiled with AVX-512 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx512/strips_avx512.h"
#include "kernels/cpu/simd/down_sums.h"

namespace hearth {
namespace {

struct Avx512Sums : Avx512Down {
  static Strip all(float value) { return {_mm512_set1_ps(value), _mm512_set1_ps(value)}; }
  static Strip all_bits(uint32_t bits) { return all(__builtin_bit_cast(float, bits)); }
  static Strip sub(Strip a, Strip b) { return {_mm512_sub_ps(a.low, b.low), _mm512_sub_ps(a.high, b.high)}; }
  static Strip add_bits(Strip a, Strip b) { return {add_bits(a.low, b.low), add_bits(a.high, b.high)}; }
  /// differing | (a ^ b)
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

}  // namespace

const DownSumsKernels kDownSumsAvx512 = down_sums_table<Avx512Sums>();

}  // namespace hearth
