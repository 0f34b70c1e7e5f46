// A vector of eight weight rows in AVX2, with FMA and F16C: the Simd class of the loops in kernels/cpu/simd,
// and loads of float weights.
//
// Included by the source files for AVX2, AVX-VNNI and AVX-512. Everything is in an anonymous namespace: each
// source file gets its own copies, so that the linker cannot use code compiled for one processor on another.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_table.h"

namespace hearth {
namespace {

struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  static constexpr int kLanes = 8;
  // The 16 registers hold 8 integer sums; the rest hold weights, activations and products.
  template <int largest, int group>
  static constexpr int kTokenTile = 4;
  static constexpr int kQuantBytes = 2;
  // All panels of bytes are widened to words, independent of the largest weight of the type.
  template <int largest>
  static constexpr int kVectorsPerFour = 2;
  static constexpr bool kSubtractsOffset = true;
  static constexpr int class_of(int) { return 255; }
  static constexpr int kFloatRows = 3, kFloatTokens = 4, kFloatRowsOfOne = 8;  // 12 sums in 16 registers

  static Int zero() { return _mm256_setzero_si256(); }
  static Int bytes(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
  static Int dwords(int v) { return _mm256_set1_epi32(v); }
  static Float floats(float v) { return _mm256_set1_ps(v); }
  static Int bit_and(Int a, Int b) { return _mm256_and_si256(a, b); }
  static Int bit_or(Int a, Int b) { return _mm256_or_si256(a, b); }
  static Int bit_xor(Int a, Int b) { return _mm256_xor_si256(a, b); }
  static Int add_int(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static Int sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  template <int n>
  static Int shift_left(Int v) {
    return _mm256_slli_epi32(v, n);
  }
  template <int n>
  static Int shift_right(Int v) {
    return _mm256_srli_epi32(v, n);
  }
  template <int n>
  static Int shift_right_signed(Int v) {
    return _mm256_srai_epi32(v, n);
  }
  static Float as_float(Int v) { return _mm256_castsi256_ps(v); }  // the same bits
  static Float to_float(Int v) { return _mm256_cvtepi32_ps(v); }
  static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static Float sub_float(Float a, Float b) { return _mm256_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static Float negate(Float v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
  static Int broadcast_dword(const std::byte* p) {
    int v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
  }
  static Float broadcast_float(const std::byte* p) {
    float v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm256_set1_ps(v);
  }

  // Convert the IEEE halves in the low (or high) 16 bits of each dword to floats.
  static Float low_half(Int v) { return halves(_mm256_and_si256(v, _mm256_set1_epi32(0xffff))); }
  static Float high_half(Int v) { return halves(_mm256_srli_epi32(v, 16)); }
  static Float halves(Int v) {
    const Int packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }

  // Loads 16 bytes of rows i and 4+i side by side.
  [[gnu::always_inline]] static Int load_16(const RowBlocks& rows, int i, size_t offset) {
    const size_t at = rows.offset + offset;
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(rows.row[i] + at)),
                                   load16(rows.row[4 + i] + at), 1);
  }

  // Returns the first dword of every row; reads 16 bytes of each row.
  [[gnu::always_inline]] static Int first_dwords(const RowBlocks& rows) {
    Int four[4];
    for (int i = 0; i < 4; ++i) four[i] = load_16(rows, i, 0);
    return _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(four[0], four[1]),
                                 _mm256_unpacklo_epi32(four[2], four[3]));
  }

  // Sums the four dwords of each row. part[i] holds the dwords of rows i and 4+i side by side.
  [[gnu::always_inline]] static Int add_up(const Int* part) {
    const Int a = add_int(_mm256_unpacklo_epi32(part[0], part[1]), _mm256_unpackhi_epi32(part[0], part[1]));
    const Int b = add_int(_mm256_unpacklo_epi32(part[2], part[3]), _mm256_unpackhi_epi32(part[2], part[3]));
    return add_int(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  }

  // Copies 16 bytes to both halves of a vector, so that every row reads them.
  static Int same_16(const std::byte* p) { return _mm256_broadcastsi128_si256(load16(p)); }

  // Loads 16 bytes of every row. out[j] gets dword j of all rows: each half of a vector is a transposition of
  // 4x4 dwords.
  [[gnu::always_inline]] static void load_rows(const RowBlocks& rows, int offset, Int* out) {
    Int four[4];
    for (int i = 0; i < 4; ++i) four[i] = load_16(rows, i, static_cast<size_t>(offset));
    const Int a = _mm256_unpacklo_epi32(four[0], four[1]), b = _mm256_unpackhi_epi32(four[0], four[1]);
    const Int c = _mm256_unpacklo_epi32(four[2], four[3]), d = _mm256_unpackhi_epi32(four[2], four[3]);
    out[0] = _mm256_unpacklo_epi64(a, c);
    out[1] = _mm256_unpackhi_epi64(a, c);
    out[2] = _mm256_unpacklo_epi64(b, d);
    out[3] = _mm256_unpackhi_epi64(b, d);
  }

  [[gnu::always_inline]] static Int load_dword(const RowBlocks& rows, int offset) {
    int v[8];
    const size_t at = rows.offset + static_cast<size_t>(offset);
    for (int r = 0; r < 8; ++r) __builtin_memcpy(&v[r], rows.row[r] + at, 4);
    return _mm256_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
  }

  static Int table(const int8_t* values) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
  static Int look_up(Int table, Int index) { return _mm256_shuffle_epi8(table, index); }

  // Spreads bits 4i..4i+3 of every dword to the four bytes of the same dword. A byte becomes `value` if its
  // bit is set, else 0.
  static Int spread_bits(Int bits, int i, int value) {
    const Int places =
        _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const Int byte = _mm256_shuffle_epi8(bits, _mm256_add_epi8(places, bytes(i / 2)));
    const Int mask = _mm256_set1_epi32(i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(byte, mask), mask), bytes(value));
  }

  // Multiplies n vectors by 16 * n quants of a token, from column `column` of a span on. Each vector has 16
  // columns of each of its rows, in memory order. Returns four partial sums per row.
  template <int n, int largest>
  [[gnu::always_inline]] static Int dot_rows(const Int* weights, const std::byte* span, int column) {
    Int sum = zero();
    for (int i = 0; i < n; ++i) {
      const std::byte* x = span + 2 * column + 32 * i;
      Int words[2];
      spread<0>(weights[i], words);
      const Int even = _mm256_madd_epi16(words[0], same_16(x)),
                odd = _mm256_madd_epi16(words[1], same_16(x + 16));
      sum = i == 0 ? add_int(even, odd) : add_int(sum, add_int(even, odd));
    }
    return sum;
  }

  // Returns the address of a dword with the quants of columns 4k and 4k + 2 of a span. The quants of columns
  // 4k + 1 and 4k + 3 are 16 bytes later.
  static const std::byte* pairs_at(const std::byte* x, int k) { return x + k / 4 * 32 + k % 4 * 4; }

  // Multiplies kColumns weights by a token's quants, from column `column` of a span on. Returns the sums of
  // the products. Weight bytes become words by masking (even columns) or shifting (odd columns). vpmaddwd
  // adds pairs of products in 32 bits, where nothing saturates (bounds: activation_row.h). This costs less
  // than multiplying high and low bytes separately with vpmaddubsw, whose 16-bit sums would have to be
  // widened often.
  template <int kColumns, int largest>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    const std::byte* x = span + 2 * column;
    Int sum[2] = {zero(), zero()};
#pragma GCC unroll 8
    for (int k = 0; k < kColumns / 4; ++k) {
      Int words[2];
      spread<0>(weights[k], words);
      sum[0] = add_product(sum[0], words[0], broadcast_dword(pairs_at(x, k)));
      sum[1] = add_product(sum[1], words[1], broadcast_dword(pairs_at(x, k) + 16));
    }
    return _mm256_add_epi32(sum[0], sum[1]);
  }

  // Multiplies the low nibbles of n vectors (four columns each) by 4 * n quants of a token, from column
  // `column` of a span on.
  template <int n>
  [[gnu::always_inline]] static Int dot_low_nibbles(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, _mm256_set1_epi16(0x0f), span, column);
  }
  // Returns 16 times the products of the high nibbles, because the nibbles are not shifted down.
  template <int n>
  [[gnu::always_inline]] static Int dot_high_nibbles_16(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, _mm256_set1_epi16(0xf0), span, column);
  }
  template <int n>
  [[gnu::always_inline]] static Int dot_masked(const Int* raw, Int mask, const std::byte* span, int column) {
    const std::byte* x = span + 2 * column;
    Int sum[2] = {zero(), zero()};
#pragma GCC unroll 8
    for (int k = 0; k < n; ++k) {
      const Int even = _mm256_and_si256(raw[k], mask);
      const Int odd = _mm256_and_si256(_mm256_srli_epi16(raw[k], 8), mask);
      sum[0] = add_product(sum[0], even, broadcast_dword(pairs_at(x, k)));
      sum[1] = add_product(sum[1], odd, broadcast_dword(pairs_at(x, k) + 16));
    }
    return _mm256_add_epi32(sum[0], sum[1]);
  }

  // Subtracts an offset from bytes, and widens them to the words that dot_pair() multiplies: even columns
  // first, then odd columns.
  template <int offset>
  static void spread(Int bytes, Int* words) {
    const Int offsets = _mm256_set1_epi16(offset);
    words[0] = _mm256_sub_epi16(_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), offsets);
    words[1] = _mm256_sub_epi16(_mm256_srli_epi16(bytes, 8), offsets);
  }

  // Adds to sum[p][t], for each panel p and token t, the products of the panel's rows with the token's
  // quants. The quants of the n tokens are `stride` bytes apart.
  template <int n, int kColumns, int largest>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    const std::byte* x = span + 2 * column;
#pragma GCC unroll 16
    for (int k = 0; k < kColumns / 2; ++k) {
      const Int a = first[k], b = second[k];
      for (int t = 0; t < n; ++t) {
        const Int two = broadcast_dword(pairs_at(x, k / 2) + k % 2 * 16 + t * stride);
        sum[0][t] = add_product(sum[0][t], a, two);
        sum[1][t] = add_product(sum[1][t], b, two);
      }
    }
  }

  // Returns sum + a * b for pairs of words. The empty asm statement keeps GCC from reordering the additions.
  // Otherwise GCC would compute all products first, and spill them because they do not fit the registers.
  static Int add_product(Int sum, Int a, Int b) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    asm("" : "+x"(sum));
    return sum;
  }

  static Float load_floats(const float* p) { return _mm256_loadu_ps(p); }
  static Float load_floats(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
  static void store_floats(float* p, Float v, int n) { _mm256_maskstore_ps(p, first(n), v); }
  static float total(const Float* sums) {
    const Float v = _mm256_add_ps(sums[0], sums[1]);
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }

  static Int first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m128i load16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

  // Loads the first n of 8 words at p; the other words are 0.
  static __m128i load_words(const std::byte* p, int n) {
    alignas(16) std::byte words[16] = {};
    __builtin_memcpy(words, p, static_cast<size_t>(n) * 2);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(words));
  }

  struct LoadF32 {
    static constexpr int kBytes = 4;
    static __m256 full(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
    static __m256 part(const std::byte* p, int n) {
      return _mm256_maskload_ps(reinterpret_cast<const float*>(p), first(n));
    }
  };

  struct LoadF16 {
    static constexpr int kBytes = 2;
    static __m256 full(const std::byte* p) { return _mm256_cvtph_ps(load16(p)); }
    static __m256 part(const std::byte* p, int n) { return _mm256_cvtph_ps(load_words(p, n)); }
  };

  struct LoadBF16 {
    static constexpr int kBytes = 2;
    static __m256 widen(__m128i v) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
    }
    static __m256 full(const std::byte* p) { return widen(load16(p)); }
    static __m256 part(const std::byte* p, int n) { return widen(load_words(p, n)); }
  };

  static int total_int(__m256i v) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0x55)));
  }

  static int largest(__m256i v) {
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_max_epi32(half, _mm_unpackhi_epi64(half, half));
    return _mm_cvtsi128_si32(_mm_max_epi32(half, _mm_shuffle_epi32(half, 0x55)));
  }

  // Returns the bit pattern of the largest absolute value in a span, for span_scale().
  static int largest_bits(const float* x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_setzero_si256();
    for (int k = 0; k < kActivationSpan; k += 8) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
      max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
    }
    return largest(max);
  }
};

}  // namespace
}  // namespace hearth
