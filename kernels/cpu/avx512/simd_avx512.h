// AVX-512's vectors for the matmul loops of kernels/cpu/simd: 16 weight rows each. Products of bytes use
// VNNI.
//
// Included only by source files compiled with AVX-512 F, BW, VL, DQ and VNNI. Everything is in an anonymous
// namespace: each source file gets its own copies, so that the linker cannot use code compiled for one
// processor on another.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/matmul_panel.h"

namespace hearth {
namespace {

struct Avx512Vectors {
  using Int = __m512i;
  using Float = __m512;
  static constexpr int kLanes = 16;
  // With two planes, integer sums take 16 of the 32 registers, and float sums take 8. With one plane, integer
  // sums take 12, and float sums take 12. The other registers hold weights and activations. Weight groups of
  // 16 columns need twice as many float sums, because the results of a span's first group are kept until the
  // second group is added.
  static constexpr int token_tile(int planes, int group) {
    if (planes == 1) return group == kActivationSpan ? 6 : 4;
    return group == kActivationSpan ? 4 : 3;
  }
  static constexpr bool kHoldsBothPlanes = true;
  static constexpr int kFloatRows = 4, kFloatTokens = 6, kFloatRowsOfOne = 8;  // 24 sums in 32 registers

  static Int zero() { return _mm512_setzero_si512(); }
  static Int bytes(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
  static Int dwords(int v) { return _mm512_set1_epi32(v); }
  static Float floats(float v) { return _mm512_set1_ps(v); }
  static Int bit_and(Int a, Int b) { return _mm512_and_si512(a, b); }
  static Int bit_or(Int a, Int b) { return _mm512_or_si512(a, b); }
  static Int bit_xor(Int a, Int b) { return _mm512_xor_si512(a, b); }
  static Int add_int(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  template <int n>
  static Int shift_left(Int v) {
    return _mm512_slli_epi32(v, n);
  }
  template <int n>
  static Int shift_right(Int v) {
    return _mm512_srli_epi32(v, n);
  }
  template <int n>
  static Int shift_right_signed(Int v) {
    return _mm512_srai_epi32(v, n);
  }
  /// Returns sum + the products of unsigned bytes with signed bytes, four products per dword. Exact, because
  /// nothing saturates.
  static Int dot_bytes(Int sum, Int weights, Int quants) { return _mm512_dpbusd_epi32(sum, weights, quants); }
  static Float as_float(Int v) { return _mm512_castsi512_ps(v); }  // the same bits
  static Float to_float(Int v) { return _mm512_cvtepi32_ps(v); }
  static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float sub_float(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static Float negate(Float v) { return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f)); }
  static Int broadcast_dword(const std::byte* p) {
    int v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
  }
  static Float broadcast_float(const std::byte* p) {
    float v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm512_set1_ps(v);
  }

  // Convert the IEEE halves in the low (or high) 16 bits of each dword to floats.
  static Float low_half(Int v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  static Float high_half(Int v) { return low_half(_mm512_srli_epi32(v, 16)); }

  // Loads 16 bytes of rows i, 4+i, 8+i and 12+i side by side.
  [[gnu::always_inline]] static Int load_16(const RowBlocks& rows, int i, size_t offset) {
    const size_t at = rows.offset + offset;
    Int v = _mm512_castsi128_si512(load16(rows.row[i] + at));
    v = _mm512_inserti32x4(v, load16(rows.row[4 + i] + at), 1);
    v = _mm512_inserti32x4(v, load16(rows.row[8 + i] + at), 2);
    return _mm512_inserti32x4(v, load16(rows.row[12 + i] + at), 3);
  }

  // Returns the first dword of every row; reads 16 bytes of each row.
  [[gnu::always_inline]] static Int first_dwords(const RowBlocks& rows) {
    Int four[4];
    for (int i = 0; i < 4; ++i) four[i] = load_16(rows, i, 0);
    return _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(four[0], four[1]),
                                 _mm512_unpacklo_epi32(four[2], four[3]));
  }

  // Sums the four dwords of each row. part[i] holds the dwords of rows i, 4+i, 8+i and 12+i side by side.
  [[gnu::always_inline]] static Int add_up(const Int* part) {
    const Int a = add_int(_mm512_unpacklo_epi32(part[0], part[1]), _mm512_unpackhi_epi32(part[0], part[1]));
    const Int b = add_int(_mm512_unpacklo_epi32(part[2], part[3]), _mm512_unpackhi_epi32(part[2], part[3]));
    return add_int(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }

  // Copies 16 bytes to all quarters of a vector, so that every row reads them.
  static Int same_16(const std::byte* p) { return _mm512_broadcast_i32x4(load16(p)); }

  // Loads 16 bytes of every row. out[j] gets dword j of all rows: each quarter of a vector is a transposition
  // of 4x4 dwords.
  [[gnu::always_inline]] static void load_rows(const RowBlocks& rows, int offset, Int* out) {
    Int four[4];
    for (int i = 0; i < 4; ++i) four[i] = load_16(rows, i, static_cast<size_t>(offset));
    const Int a = _mm512_unpacklo_epi32(four[0], four[1]), b = _mm512_unpackhi_epi32(four[0], four[1]);
    const Int c = _mm512_unpacklo_epi32(four[2], four[3]), d = _mm512_unpackhi_epi32(four[2], four[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
  }

  [[gnu::always_inline]] static Int load_dword(const RowBlocks& rows, int offset) {
    int v[16];
    const size_t at = rows.offset + static_cast<size_t>(offset);
    for (int r = 0; r < 16; ++r) __builtin_memcpy(&v[r], rows.row[r] + at, 4);
    return _mm512_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12],
                             v[13], v[14], v[15]);
  }

  static Int table(const int8_t* values) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
  static Int look_up(Int table, Int index) { return _mm512_shuffle_epi8(table, index); }

  // Spreads bits 4i..4i+3 of every dword to the four bytes of the same dword. A byte becomes `value` if its
  // bit is set, else 0.
  static Int spread_bits(Int bits, int i, int value) {
    const Int byte =
        _mm512_shuffle_epi8(bits, _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                                                  _mm512_set1_epi8(static_cast<char>(i / 2))));
    const Int mask = _mm512_set1_epi32(i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(byte, mask), bytes(value));
  }

  static Float load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static Float load_floats(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store_floats(float* p, Float v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
  static float total(const Float* v) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(*v), _mm512_extractf32x8_ps(*v, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }

  static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static __m128i load16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

  struct LoadF32 {
    static constexpr int kBytes = 4;
    static __m512 full(const std::byte* p) { return _mm512_loadu_ps(p); }
    static __m512 part(const std::byte* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  };

  struct LoadF16 {
    static constexpr int kBytes = 2;
    static __m512 full(const std::byte* p) {
      return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static __m512 part(const std::byte* p, int n) {
      return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
    }
  };

  struct LoadBF16 {
    static constexpr int kBytes = 2;
    static __m512 widen(__m256i v) {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
    }
    static __m512 full(const std::byte* p) {
      return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static __m512 part(const std::byte* p, int n) { return widen(_mm256_maskz_loadu_epi16(first(n), p)); }
  };
};

}  // namespace
}  // namespace hearth
