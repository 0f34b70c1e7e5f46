// DownSumsKernels for AVX2 with FMA and F16C.
//
// Compiled with AVX2 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx2/strips_avx2.h"
#include "kernels/cpu/simd/down_sums.h"

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
  /// differing | (a ^ b), folded into the first register; the other registers do not count.
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

}  // namespace

const DownSumsKernels kDownSumsAvx2 = down_sums_table<Avx2Sums>();

}  // namespace hearth
