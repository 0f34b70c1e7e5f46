// Matmul loops for AVX2 and activations of 8 bits: a vector holds 8 weight rows.
//
// vpmaddubsw multiplies unsigned bytes (weights) by signed bytes (quants), and adds pairs of products in 16
// bits. The largest weight limits how many such pairs can be added up in 16 bits: eight for types of 4 bits,
// four for 5 bits, and two for 6 bits. With weights of 8 bits, even one pair would overflow, so each weight
// is multiplied as two nibbles. This file is compiled with AVX2 enabled, so only the table may have external
// linkage.
#include <type_traits>

#include "kernels/cpu/avx2/simd_avx2.h"

namespace hearth {
namespace {

struct Avx2Bytes : Avx2 {
  static constexpr int kQuantBytes = 1;
  static constexpr bool kSubtractsOffset = false;
  template <int largest>
  static constexpr int kVectorsPerFour = largest == 255 ? 2 : 1;
  // A tile has 8 or 10 of the 16 registers for 16-bit sums of pairs. Weights of 6 bits allow only two
  // additions before these sums must be widened. So their tile has 6 registers for 16-bit sums, and 6 more
  // for 32-bit sums.
  template <int largest, int group>
  static constexpr int kTokenTile = largest == 15   ? 5
                                    : largest == 63 ? 3
                                                    : 4;
  // Types of up to 4 bits share their machine code.
  static constexpr int class_of(int largest) { return largest <= 15 ? 15 : largest; }

  template <int largest>
  static constexpr int kPairs = 32767 / (2 * 127 * largest);

  /// Splits bytes into the nibble vectors that dot_pair() multiplies: high nibbles first, then low nibbles.
  template <int>
  static void spread(Int bytes, Int* nibbles) {
    nibbles[0] = bit_and(_mm256_srli_epi16(bytes, 4), Avx2::bytes(0x0f));
    nibbles[1] = bit_and(bytes, Avx2::bytes(0x0f));
  }

  template <int kColumns, int largest>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    static_assert(largest < 255);
    constexpr int kRun = kPairs<class_of(largest)> < kColumns / 4 ? kPairs<class_of(largest)> : kColumns / 4;
    Int sum = zero();
#pragma GCC unroll 8
    for (int run = 0; run < kColumns / 4; run += kRun) {
      Int pairs = zero();
#pragma GCC unroll 8
      for (int k = run; k < run + kRun; ++k) {
        pairs = add_pairs(pairs, weights[k], broadcast_dword(span + column + k * 4));
      }
      sum = add_int(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    return sum;
  }

  template <int n, int largest>
  [[gnu::always_inline]] static Int dot_rows(const Int* weights, const std::byte* span, int column) {
    static_assert(n <= kPairs<class_of(largest)>);
    Int pairs = _mm256_maddubs_epi16(weights[0], same_16(span + column));
    for (int i = 1; i < n; ++i) pairs = add_pairs(pairs, weights[i], same_16(span + column + 16 * i));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }

  template <int n>
  [[gnu::always_inline]] static Int dot_low_nibbles(const Int* raw, const std::byte* span, int column) {
    Int nibbles[n];
    for (int k = 0; k < n; ++k) nibbles[k] = bit_and(raw[k], bytes(0x0f));
    return dot_one<4 * n, 15>(nibbles, span, column);
  }
  template <int n>
  [[gnu::always_inline]] static Int dot_high_nibbles_16(const Int* raw, const std::byte* span, int column) {
    Int nibbles[n];
    for (int k = 0; k < n; ++k) nibbles[k] = bit_and(_mm256_srli_epi16(raw[k], 4), bytes(0x0f));
    return shift_left<4>(dot_one<4 * n, 15>(nibbles, span, column));
  }

  template <int n, int kColumns, int largest>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    if constexpr (largest == 255) {
      add_products<n, kColumns, 15, 2>(first, second, span + column, stride, 16, sum);
      add_products<n, kColumns, 15, 2>(first + 1, second + 1, span + column, stride, 1, sum);
    } else {
      add_products<n, kColumns, largest, 1>(first, second, span + column, stride, 1, sum);
    }
  }

  /// For panels p and tokens t: sum[p][t] += factor * the dot products of every step-th vector of the panel
  /// with the token's quants.
  template <int n, int kColumns, int largest, int step>
  [[gnu::always_inline]] static void add_products(const Int* first, const Int* second, const std::byte* x,
                                                  size_t stride, int16_t factor, Int (&sum)[2][n]) {
    constexpr int kRun = kPairs<largest> < kColumns / 4 ? kPairs<largest> : kColumns / 4;
    static_assert(kColumns / 4 % kRun == 0);
#pragma GCC unroll 8
    for (int run = 0; run < kColumns / 4; run += kRun) {
      Int pairs[2][n];
      for (int t = 0; t < n; ++t) pairs[0][t] = pairs[1][t] = zero();
#pragma GCC unroll 8
      for (int k = run; k < run + kRun; ++k) {
        const Int a = first[k * step], b = second[k * step];
        for (int t = 0; t < n; ++t) {
          const Int four = broadcast_dword(x + t * stride + k * 4);
          pairs[0][t] = add_pairs(pairs[0][t], a, four);
          pairs[1][t] = add_pairs(pairs[1][t], b, four);
        }
      }
      for (int t = 0; t < n; ++t) {
        for (int p = 0; p < 2; ++p) {
          sum[p][t] = add_int(sum[p][t], _mm256_madd_epi16(pairs[p][t], _mm256_set1_epi16(factor)));
        }
      }
    }
  }

  /// Returns sum + the products of bytes, two products per 16-bit word. The empty asm statement keeps GCC
  /// from reordering the additions; see add_product().
  static Int add_pairs(Int sum, Int weights, Int quants) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, quants));
    asm("" : "+x"(sum));
    return sum;
  }
};

/// The class for one token and for blocks whose weights are signed bytes. vpmaddubsw multiplies the absolute
/// values of the weights by the quants, whose signs are flipped where the weight is negative. The sum of two
/// such products, at most 2 * 128 * 127, fits 16 bits. So weights need no offset of 128. The functions with
/// which the common loops add this offset to weights (bit_xor() with 0x80) and subtract it from sums (a shift
/// by 7) therefore do nothing here.
struct Avx2SignedBytes : Avx2Bytes {
  static Int bit_xor(Int weights, Int) { return weights; }
  template <int n>
  static Int shift_left(Int v) {
    return n == 7 ? zero() : Avx2::shift_left<n>(v);
  }

  template <int kColumns, int largest>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    Int sum = zero();
    for (int k = 0; k < kColumns / 4; ++k) {
      sum = add_fours(sum, weights[k], broadcast_dword(span + column + k * 4));
    }
    return sum;
  }
  template <int n, int largest>
  [[gnu::always_inline]] static Int dot_rows(const Int* weights, const std::byte* span, int column) {
    Int sum = zero();
    for (int i = 0; i < n; ++i) sum = add_fours(sum, weights[i], same_16(span + column + 16 * i));
    return sum;
  }

  /// Returns sum + the products of bytes, four products per dword.
  static Int add_fours(Int sum, Int weights, Int quants) {
    const Int pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(quants, weights));
    return add_product(sum, pairs, _mm256_set1_epi16(1));
  }
};
static_assert(BlockQ8_0::kOffset == 128 && BlockIQ4_NL::kOffset == 128 && BlockIQ4_XS::kOffset == 128);

struct BytesAvx2 {
  template <class Block>
  using Many = Avx2Bytes;
  template <class Block>
  using One = std::conditional_t<Block::kLargest == 255, Avx2SignedBytes, Avx2Bytes>;
};

// A span's quants are bytes in the order of the columns. See quantize_activation_row().
int quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  const __m256 factor = _mm256_set1_ps(inverse);
  const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values), factor));
  const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values + 8), factor));
  // Packing works within 128-bit halves and puts b0..3 after a0..3; the permutation restores the order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(quants) + half,
                   _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  return Avx2::total_int(_mm256_add_epi32(a, b));
}

}  // namespace

const MatmulKernels kMatmulBytesAvx2 =
    matmul_table<BytesAvx2, Avx2>(quantize_activation_row<1, Avx2::largest_bits, quantize_half>);

}  // namespace hearth
