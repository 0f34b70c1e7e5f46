// Matmul loops for AVX-512 with VNNI (F, BW, VL, DQ): a vector holds 16 weight rows.
//
// This file chooses the vectors (simd_avx512.h) and quantizes activations; kernels/cpu/simd has the loops. It
// is compiled with AVX-512 enabled, so only the tables may have external linkage.
#include <immintrin.h>

#include <type_traits>

#include "kernels/cpu/avx2/simd_avx2.h"
#include "kernels/cpu/avx512/simd_avx512.h"
#include "kernels/cpu/simd/matmul_planes.h"
#include "kernels/cpu/simd/matmul_table.h"

namespace hearth {
namespace {

/// Eight weight rows in 256 bits, for one token.
struct HalfVectors : Avx2 {
  static Int dot_bytes(Int sum, Int weights, Int quants) { return _mm256_dpbusd_epi32(sum, weights, quants); }
};

/// For one token, types with long strips (kStripIsLong) use half vectors, so they read 8 rows at a time
/// instead of 16. With the necessary prefetch, the strips of 16 rows of Q8_0 do not fit an L1 cache of 32 KB.
/// Speeds at which one thread of Zen 4 reads from memory with 16 rows and with 8 rows: Q8_0 15.0 and 23.3
/// GB/s, Q6_K 15.2 and 18.5, Q5_K 16.4 and 17.2, Q4_K 19.9 and 18.7. An L1 cache of 48 KB is large enough for
/// 16 rows of Q6_K (on Zen 5, 28.3 GB/s with 16 rows and 22.3 with 8). It is too small for 16 rows of Q8_0
/// (30 GB/s with 16 rows and 34 with 8).
template <int planes>
struct Avx512 {
  template <class Block>
  using Many = BytePlanes<Avx512Vectors, planes>;
  template <class Block>
  using One = BytePlanes<std::conditional_t<kStripIsLong<Block>, HalfVectors, Avx512Vectors>, planes>;
  template <class Block>
  using OneInLargeL1 =
      BytePlanes<std::conditional_t<(kStripBytes<Block> > 256), HalfVectors, Avx512Vectors>, planes>;
};

// A span's quants are 32 high bytes, then 32 low bytes, as vpdpbusd needs them; q = 256 * high + low, both
// signed. With 8-bit activations, there is only one plane of 32 bytes. See quantize_activation_row().
template <int planes>
int quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  __m128i* out = reinterpret_cast<__m128i*>(quants) + half;
  const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(values), _mm512_set1_ps(inverse)));
  __m512i first = q;
  if constexpr (planes == 2) {
    first = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    _mm_storeu_si128(out + kActivationSpan / kActivationHalf, _mm512_cvtepi32_epi8(q));
  }
  _mm_storeu_si128(out, _mm512_cvtepi32_epi8(first));
  return _mm512_reduce_add_epi32(q);
}

}  // namespace

const MatmulKernels kMatmulKernelsAvx512 =
    matmul_table<Avx512<2>, Avx512Vectors>(quantize_activation_row<2, Avx2::largest_bits, quantize_half<2>>);
const MatmulKernels kMatmulBytesAvx512 =
    matmul_table<Avx512<1>, Avx512Vectors>(quantize_activation_row<1, Avx2::largest_bits, quantize_half<1>>);

}  // namespace hearth
