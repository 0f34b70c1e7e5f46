// Matmul loops for AVX-512 with VNNI (F, BW, VL, DQ): a vector holds 16 weight rows.
//
// Only the Simd class and the quantisation of activations are here; the loops are those of kernels/cpu/simd.
// Compiled with AVX-512 enabled: nothing in this file may have external linkage but the table.
#include <immintrin.h>

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_float.h"
#include "kernels/cpu/simd/matmul_quantized.h"

namespace hearth {
namespace {

struct Avx512 {
  using Int = __m512i;
  using Float = __m512;
  static constexpr int kLanes = 16;
  // Of 32 registers: 16 integer and 8 float sums; the rest hold weights and activations.
  static constexpr int kTokenTile = 4;
  static constexpr int kVectorsPerFour = 1;  // panels of bytes are multiplied as they are
  static constexpr int kFloatRows = 4, kFloatTokens = 6, kFloatRowsOfOne = 8;  // 24 sums of 32 registers

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
  // Minus 2^bits times the dword at p, in every lane.
  static Int minus_shifted(const std::byte* p, int bits) {
    return _mm512_sub_epi32(zero(), _mm512_sll_epi32(broadcast_dword(p), _mm_cvtsi32_si128(bits)));
  }
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

  // Converts the halves in the low (or high) words of the dwords to floats.
  static Float low_half(Int v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  static Float high_half(Int v) { return low_half(_mm512_srli_epi32(v, 16)); }

  // Loads 16 bytes of rows i, 4+i, 8+i and 12+i side by side, then transposes 4x4 dwords within each of them.
  [[gnu::always_inline]] static void load_rows(const RowBlocks& rows, int offset, Int* out) {
    const size_t at = rows.offset + static_cast<size_t>(offset);
    Int four[4];
    for (int i = 0; i < 4; ++i) {
      Int v = _mm512_castsi128_si512(load16(rows.row[i] + at));
      v = _mm512_inserti32x4(v, load16(rows.row[4 + i] + at), 1);
      v = _mm512_inserti32x4(v, load16(rows.row[8 + i] + at), 2);
      four[i] = _mm512_inserti32x4(v, load16(rows.row[12 + i] + at), 3);
    }
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

  // Spreads bits 4i..4i+3 of every dword to its four bytes: `value` where the bit is set, else 0.
  static Int spread_bits(Int bits, int i, int value) {
    const Int byte =
        _mm512_shuffle_epi8(bits, _mm512_add_epi8(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                                                  _mm512_set1_epi8(static_cast<char>(i / 2))));
    const Int mask = _mm512_set1_epi32(i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(byte, mask), bytes(value));
  }

  // The products of kColumns weights with a token's quants, from column `column` of a span on: 256 times the
  // products of the high bytes plus the products of the low bytes. The sums are exact (bounds:
  // activation_row.h), so their order is free. Four chains: there are no other tokens' products to overlap
  // with.
  template <int kColumns>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    const std::byte* high = span + column;
    const std::byte* low = high + kActivationSpan;
    Int high_sum[2] = {}, low_sum[2] = {};
#pragma GCC unroll 8
    for (int k = 0; k < kColumns / 4; ++k) {
      high_sum[k % 2] = _mm512_dpbusd_epi32(high_sum[k % 2], weights[k], broadcast_dword(high + k * 4));
      low_sum[k % 2] = _mm512_dpbusd_epi32(low_sum[k % 2], weights[k], broadcast_dword(low + k * 4));
    }
    const Int highs = _mm512_add_epi32(high_sum[0], high_sum[1]);
    return _mm512_add_epi32(_mm512_slli_epi32(highs, 8), _mm512_add_epi32(low_sum[0], low_sum[1]));
  }

  // sum[p][t] += the products of two panels' rows with the quants of n tokens, `stride` bytes apart. Two chains
  // per sum: with a single chain, the processor would wait for the last product.
  template <int n, int kColumns>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    const std::byte* high = span + column;
    const std::byte* low = high + kActivationSpan;
    Int highs[2][n];
    for (int t = 0; t < n; ++t) highs[0][t] = highs[1][t] = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int k = 0; k < kColumns / 4; ++k) {
      const Int a = first[k], b = second[k];
      for (int t = 0; t < n; ++t) {
        const Int h = broadcast_dword(high + t * stride + k * 4),
                  l = broadcast_dword(low + t * stride + k * 4);
        highs[0][t] = _mm512_dpbusd_epi32(highs[0][t], a, h);
        highs[1][t] = _mm512_dpbusd_epi32(highs[1][t], b, h);
        sum[0][t] = _mm512_dpbusd_epi32(sum[0][t], a, l);
        sum[1][t] = _mm512_dpbusd_epi32(sum[1][t], b, l);
      }
    }
    for (int t = 0; t < n; ++t) {
      for (int p = 0; p < 2; ++p) sum[p][t] = _mm512_add_epi32(_mm512_slli_epi32(highs[p][t], 8), sum[p][t]);
    }
  }

  // The products of the low nibbles of n vectors, four columns each, with a token's quants from column `column`
  // of a span on.
  template <int n>
  [[gnu::always_inline]] static Int dot_low_nibbles(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, bytes(0x0f), span, column);
  }
  // 16 times the products of the high nibbles, which are multiplied where they are.
  template <int n>
  [[gnu::always_inline]] static Int dot_high_nibbles_16(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, bytes(0xf0), span, column);
  }
  template <int n>
  [[gnu::always_inline]] static Int dot_masked(const Int* raw, Int mask, const std::byte* span, int column) {
    const std::byte* high = span + column;
    const std::byte* low = high + kActivationSpan;
    Int highs = zero(), lows = zero();
#pragma GCC unroll 8
    for (int k = 0; k < n; ++k) {
      const Int weights = bit_and(raw[k], mask);
      highs = _mm512_dpbusd_epi32(highs, weights, broadcast_dword(high + k * 4));
      lows = _mm512_dpbusd_epi32(lows, weights, broadcast_dword(low + k * 4));
    }
    return _mm512_add_epi32(_mm512_slli_epi32(highs, 8), lows);
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
};

struct LoadF32 {
  static constexpr int kBytes = 4;
  static __m512 full(const std::byte* p) { return _mm512_loadu_ps(p); }
  static __m512 part(const std::byte* p, int n) { return _mm512_maskz_loadu_ps(Avx512::first(n), p); }
};

struct LoadF16 {
  static constexpr int kBytes = 2;
  static __m512 full(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static __m512 part(const std::byte* p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(Avx512::first(n), p));
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
  static __m512 part(const std::byte* p, int n) {
    return widen(_mm256_maskz_loadu_epi16(Avx512::first(n), p));
  }
};

// Quantises 16 values. Writes high bytes to out and low bytes 32 bytes behind it. Returns the quants' sum.
int quantize_16(const float* values, float inverse, std::byte* out) {
  const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(values), _mm512_set1_ps(inverse)));
  const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + kActivationSpan), _mm512_cvtepi32_epi8(q));
  return _mm512_reduce_add_epi32(q);
}

// The order of a span's quants: 32 high bytes, then 32 low bytes, for vpdpbusd; q = 256 * high + low, both
// signed.
void quantize_row(const float* x, int64_t n_cols, std::byte* out) {
  const ActivationRow row = activation_row(out, n_cols);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int64_t i = 0; i < n_cols / kActivationSpan; ++i, x += kActivationSpan) {
    const __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), magnitude);
    const __m512i b = _mm512_and_si512(_mm512_loadu_si512(x + kActivationHalf), magnitude);
    const SpanScale span = span_scale(x, _mm512_reduce_max_epi32(_mm512_max_epi32(a, b)));
    std::byte* quants = row.quants + i * kSpanBytes;
    const int first = quantize_16(span.values, span.inverse, quants);
    const int second = quantize_16(span.values + kActivationHalf, span.inverse, quants + kActivationHalf);
    finish_span(row, i, span.scale, first, second);
  }
}

}  // namespace

const MatmulKernels kMatmulKernelsAvx512 = {
    quantize_row,
    {multiply_float<Avx512, LoadF32>, multiply_float<Avx512, LoadF16>, multiply_float<Avx512, LoadBF16>,
     multiply_quantized<Avx512, BlockQ4_0>, multiply_quantized<Avx512, BlockQ4_1>,
     multiply_quantized<Avx512, BlockQ5_0>, multiply_quantized<Avx512, BlockQ5_1>,
     multiply_quantized<Avx512, BlockQ8_0>, multiply_quantized<Avx512, BlockQ2_K>,
     multiply_quantized<Avx512, BlockQ3_K>, multiply_quantized<Avx512, BlockQ4_K>,
     multiply_quantized<Avx512, BlockQ5_K>, multiply_quantized<Avx512, BlockQ6_K>,
     multiply_quantized<Avx512, BlockIQ4_NL>, multiply_quantized<Avx512, BlockIQ4_XS>}};

}  // namespace hearth
