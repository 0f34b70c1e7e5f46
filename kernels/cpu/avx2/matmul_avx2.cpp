// Matmul loops for AVX2 with FMA and F16C: a vector holds 8 weight rows.
//
// simd_avx2.h has the Simd class, and kernels/cpu/simd the loops. This file quantizes activations. It is
// compiled with AVX2 enabled, so only the table may have external linkage.
#include "kernels/cpu/avx2/simd_avx2.h"

namespace hearth {
namespace {

// A span's quants are 16-bit words. In every 16 columns, the even columns come first, because even and odd
// weights are multiplied separately. See quantize_activation_row().
int quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values), factor));
  const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values + 8), factor));
  // Packing works within 128-bit halves and puts b0..3 after a0..3; the permutation restores the order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  const __m256i even_first =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i eights = _mm256_shuffle_epi8(words, even_first);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants) + half, _mm256_permute4x64_epi64(eights, 0xd8));
  return Avx2::total_int(_mm256_add_epi32(a, b));
}

}  // namespace

const MatmulKernels kMatmulKernelsAvx2 =
    matmul_table<OneForAll<Avx2>, Avx2>(quantize_activation_row<2, Avx2::largest_bits, quantize_half>);

}  // namespace hearth
