// Matmul loops for AVX-VNNI: AVX2's vectors of 8 weight rows, with vpdpbusd for the products of quantized
// weights.
//
// Weights stay bytes. Four columns take two instructions with activations of 15 bits, and one with
// activations of 8 bits. AVX2 without VNNI has to widen the bytes to words and takes four instructions, two
// of which are additions. This file is compiled with AVX-VNNI enabled, so only the tables may have external
// linkage.
//
// The tests also compile this file for AVX-512 VL and VNNI, to run it on processors without AVX-VNNI. The
// vpdpbusd of AVX-512 gives the same results.
#include "kernels/cpu/avx2/simd_avx2.h"
#include "kernels/cpu/simd/matmul_planes.h"

namespace hearth {
namespace {

struct AvxVnniVectors : Avx2 {
  // Ten of the 16 registers are integer sums, because the processor starts two products per cycle, and a sum
  // can take its next product only 4 or 5 cycles later. Weight groups of 16 columns also need registers for
  // the results of a span's first group.
  static constexpr int token_tile(int, int group) { return group == kActivationSpan ? 5 : 4; }
  static constexpr bool kHoldsBothPlanes = false;

  /// Returns sum + the products of unsigned bytes with signed bytes, four products per dword. Exact, because
  /// nothing saturates.
  static Int dot_bytes(Int sum, Int weights, Int quants) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sum, weights, quants);
#else
    asm("" : "+x"(quants));  // AVX-512's instruction could broadcast them from memory; AVX-VNNI's cannot
    return _mm256_dpbusd_epi32(sum, weights, quants);
#endif
  }
};

// Returns 16 bytes: the first byte of every dword of a, then the first byte of every dword of b.
__m128i first_bytes(__m256i a, __m256i b) {
  const __m256i low = _mm256_set1_epi32(0xff);
  const __m256i words = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
  // Packing works within 128-bit halves and puts b0..3 after a0..3; the permutation restores the order.
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  return _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
}

// A span's quants are 32 high bytes, then 32 low bytes; q = 256 * high + low, both signed. With 8-bit
// activations, there is only one plane of 32 bytes. See quantize_activation_row().
template <int planes>
int quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  __m128i* out = reinterpret_cast<__m128i*>(quants) + half;
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values), factor));
  const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values + 8), factor));
  __m128i first = first_bytes(a, b);
  if constexpr (planes == 2) {
    _mm_storeu_si128(out + kActivationSpan / kActivationHalf, first);
    const __m256i rounding = _mm256_set1_epi32(128);  // the low byte is signed, so the high byte is rounded
    first = first_bytes(_mm256_srai_epi32(_mm256_add_epi32(a, rounding), 8),
                        _mm256_srai_epi32(_mm256_add_epi32(b, rounding), 8));
  }
  _mm_storeu_si128(out, first);
  return Avx2::total_int(_mm256_add_epi32(a, b));
}

template <int planes>
using AvxVnni = OneForAll<BytePlanes<AvxVnniVectors, planes>>;

}  // namespace

const MatmulKernels kMatmulKernelsAvxVnni =
    matmul_table<AvxVnni<2>, Avx2>(quantize_activation_row<2, Avx2::largest_bits, quantize_half<2>>);
const MatmulKernels kMatmulBytesAvxVnni =
    matmul_table<AvxVnni<1>, Avx2>(quantize_activation_row<1, Avx2::largest_bits, quantize_half<1>>);

}  // namespace hearth
