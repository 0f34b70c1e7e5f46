// Matmul loops for AVX2 with FMA and F16C: a vector holds 8 weight rows.
//
// The Simd class is simd_avx2.h's, the loops are those of kernels/cpu/simd; the quantisation of activations is here.
// Compiled with AVX2 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx2/simd_avx2.h"

namespace hearth {
namespace {

// Quantises 16 values to words at out, in the order of quantize_row. Returns their sum.
int quantize_16(const float* values, float inverse, std::byte* out) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values), factor));
  const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values + 8), factor));
  // Packing works within 128-bit halves and gives b0..3 after a0..3, so the words are put in order first.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  const __m256i swap =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(words, swap));
  return Avx2::total_int(_mm256_add_epi32(a, b));
}

// A span's quants are words. Every four columns are in the order 0, 2, 1, 3, because vpmaddwd meets even and
// odd weights separately.
void quantize_row(const float* x, int64_t n_cols, std::byte* out) {
  const ActivationRow row = activation_row(out, n_cols);
  for (int64_t i = 0; i < n_cols / kActivationSpan; ++i, x += kActivationSpan) {
    const SpanScale span = span_scale(x, Avx2::largest_bits(x));
    std::byte* quants = row.quants + i * kSpanBytes;
    const int first = quantize_16(span.values, span.inverse, quants);
    const int second = quantize_16(span.values + kActivationHalf, span.inverse, quants + 2 * kActivationHalf);
    finish_span(row, i, span.scale, first, second);
  }
}

}  // namespace

const MatmulKernels kMatmulKernelsAvx2 = matmul_table<OneForAll<Avx2>, Avx2>(quantize_row);

}  // namespace hearth
