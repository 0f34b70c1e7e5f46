// DownSumsKernels for AVX2, which has no conversion to 64-bit integers.
//
// A double of 2^2 to 2^3 has a last bit of 2^-50: adding 6 to a product times 2^-14 rounds it to units of
// 2^-36, ties to even, and leaves how many they are in the lowest bits. So integers are added as they lie,
// and the bits of 6 are taken away at the end, as often as products were added. That holds for products below
// 2^15; larger ones show in their exponent's first bit, and go one by one.
//
// Compiled with AVX2 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx2/strips_avx2.h"
#include "kernels/cpu/simd/down_sums.h"

namespace hearth {
namespace {

struct Avx2Sums : Avx2Down {
  struct Sums {
    __m256i v[8];  // of a strip's register k, its low half's at 2k and its high half's at 2k + 1
  };
  static float folded(float value) { return value * kFold; }
  template <bool nibbled>
  static Sums load_sums(const int64_t* p) {
    Sums s;
    for (int i = 0; i < 8; ++i) {
      s.v[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + column<nibbled>(i)));
    }
    return s;
  }
  template <bool nibbled>
  static void store_sums(const Sums& s, int n_products, int64_t* p) {
    const __m256i surplus = _mm256_set1_epi64x(kShiftBits * n_products);
    for (int i = 0; i < 8; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + column<nibbled>(i)),
                          _mm256_sub_epi64(s.v[i], surplus));
    }
  }
  [[gnu::always_inline]] static void add_product(float value, Strip weights, Sums& s) {
    const __m256 all = _mm256_set1_ps(value);
    const Strip products = each([&](int i) { return _mm256_mul_ps(all, weights.v[i]); });
    const __m256 any =
        _mm256_or_ps(_mm256_or_ps(products.v[0], products.v[1]), _mm256_or_ps(products.v[2], products.v[3]));
    // Bit 30 to where the mask is taken from.
    const __m256i large = _mm256_slli_epi32(_mm256_castps_si256(any), 1);
    if (_mm256_movemask_ps(_mm256_castsi256_ps(large)) != 0) [[unlikely]] {
      add_large(value, weights, s);
      return;
    }
    const __m256d shift = _mm256_set1_pd(kShift);
    for (int i = 0; i < 4; ++i) {
      const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(products.v[i]));
      const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(products.v[i], 1));
      s.v[2 * i] = _mm256_add_epi64(s.v[2 * i], _mm256_castpd_si256(_mm256_add_pd(low, shift)));
      s.v[2 * i + 1] = _mm256_add_epi64(s.v[2 * i + 1], _mm256_castpd_si256(_mm256_add_pd(high, shift)));
    }
  }

 private:
  static constexpr float kFold = 0x1p-14f;
  static constexpr double kShift = 6.0;
  static constexpr int64_t kShiftBits = __builtin_bit_cast(int64_t, kShift);

  template <bool nibbled>
  static constexpr int column(int i) {
    return nibbled ? i / 2 * 4 + i % 2 * 16 : i * 4;
  }
  [[gnu::noinline]] static void add_large(float value, const Strip& weights, Sums& s) {
    float w[kStripColumns];
    int64_t sums[kStripColumns];
    __builtin_memcpy(w, &weights, sizeof w);
    __builtin_memcpy(sums, &s, sizeof sums);
    for (int i = 0; i < kStripColumns; ++i) sums[i] += contribution(value / kFold, w[i]) + kShiftBits;
    __builtin_memcpy(&s, sums, sizeof s);
  }
};

}  // namespace

const DownSumsKernels kDownSumsAvx2 = down_sums_table<Avx2Sums>();

}  // namespace hearth
