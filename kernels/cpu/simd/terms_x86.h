// The common part of the classes T of down_terms.h for AVX2 and for AVX-512: codes of 32 columns, and terms
// eight at a time.
//
// Only source files compiled for AVX2 or AVX-512 include this header. Everything is in an anonymous
// namespace, so that each file has its own copies.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "kernels/cpu/simd/down_terms.h"

namespace hearth {
namespace {

/// S: the ISA's class of strips.
template <class S>
struct TermsX86 {
  using Codes = __m256i;

  /// Types whose codes and factors are read directly from the block, and not unpacked to memory first.
  template <class Block>
  static constexpr bool kDirect = std::is_same_v<Block, BlockQ4_0> || std::is_same_v<Block, BlockQ4_1> ||
                                  std::is_same_v<Block, BlockQ8_0> || std::is_same_v<Block, BlockIQ4_NL> ||
                                  std::is_same_v<Block, BlockQ4_K>;

  static Codes load(const int8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  /// Blocks may have any alignment.
  template <class Block>
  static Codes codes(const std::byte* block) {
    if constexpr (!kDirect<Block>) {
      BlockQuants<Block> quants;
      unpack_block<S, Block>(block, quants);
      return load(quants.q);
    } else if constexpr (std::is_same_v<Block, BlockQ8_0>) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + offsetof(Block, qs)));
    } else {
      const Codes q = nibbles(block + offsetof(Block, qs));
      if constexpr (std::is_same_v<Block, BlockQ4_0>) return _mm256_sub_epi8(q, _mm256_set1_epi8(8));
      if constexpr (std::is_same_v<Block, BlockIQ4_NL>) {
        const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values));
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), q);
      }
      return q;
    }
  }
  template <class Block>
  static Codes codes(const std::byte* block, int strip) {
    static_assert(std::is_same_v<Block, BlockQ4_K>);
    const std::byte* const qs = block + offsetof(Block, qs) + strip / 2 * 32;
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(qs));
    return _mm256_and_si256(strip % 2 == 0 ? raw : _mm256_srli_epi16(raw, 4), _mm256_set1_epi8(15));
  }

  /// Computes the terms of 256 columns, for types with kDirect.
  template <class Block>
  static uint32_t terms_of_256(const std::byte* blocks, float value, int32_t* terms, int32_t* mins) {
    const __m256 all = _mm256_set1_ps(value);
    if constexpr (std::is_same_v<Block, BlockQ4_K>) {
      // Scales and mins have six bits each. Groups 0..3 have them in the low bits of the first eight bytes.
      // Groups 4..7 have the low nibbles in the last four bytes, and the top bits in the top bits of the
      // first eight bytes (kernels/quant/decode.cpp).
      uint32_t words[3];
      __builtin_memcpy(words, blocks + offsetof(Block, scales), sizeof words);
      constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
      const uint64_t scales = (words[0] & kSix) | uint64_t{(words[2] & kFour) | (words[0] >> 6 & kTwo) << 4}
                                                      << 32;
      const uint64_t mins_of =
          (words[1] & kSix) | uint64_t{(words[2] >> 4 & kFour) | (words[1] >> 6 & kTwo) << 4} << 32;
      const auto factors = [](uint64_t bytes, uint16_t half) {
        const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
        return _mm256_mul_ps(_mm256_set1_ps(S::one_half(half)), _mm256_cvtepi32_ps(wide));
      };
      const __m256 minus = _mm256_set1_ps(-0.0f);
      return rounded(_mm256_mul_ps(all, factors(scales, half_at(blocks + offsetof(Block, d)))), terms) |
             rounded(
                 _mm256_mul_ps(
                     all, _mm256_xor_ps(factors(mins_of, half_at(blocks + offsetof(Block, dmin))), minus)),
                 mins);
    } else {
      const auto halves_at = [&](size_t member) {
        return eight_halves(
            [&](int i) { return half_at(blocks + static_cast<size_t>(i) * sizeof(Block) + member); });
      };
      uint32_t outside = rounded(_mm256_mul_ps(all, halves_at(offsetof(Block, d))), terms);
      if constexpr (Block::kHasMin)
        outside |= rounded(_mm256_mul_ps(all, halves_at(offsetof(Block, m))), mins);
      return outside;
    }
  }
  static uint32_t eight_terms(float value, const float* factors, int32_t* out) {
    return rounded(_mm256_mul_ps(_mm256_set1_ps(value), _mm256_loadu_ps(factors)), out);
  }
  static uint32_t eight_terms_of(const float* values, const float* factors, int32_t* out) {
    return rounded(_mm256_mul_ps(_mm256_loadu_ps(values), _mm256_loadu_ps(factors)), out);
  }

  static void pack(const int32_t* a, const int32_t* b, int n, int32_t* high, int32_t* low) {
    for (int i = 0; i < n; i += 8) {
      const __m256i first = load_words(a + i), second = load_words(b + i);
      store_words(
          halves(_mm256_srai_epi32(first, Terms::kLowBits), _mm256_srai_epi32(second, Terms::kLowBits)),
          high + i);
      const __m256i mask = _mm256_set1_epi32(Terms::kLowMask);
      store_words(halves(_mm256_and_si256(first, mask), _mm256_and_si256(second, mask)), low + i);
    }
  }
  static void pack_pairs(const int32_t* terms, int32_t* high, int32_t* low) {
    const __m256i evens = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int i = 0; i < kPanelNeurons / 2; i += 8) {
      const __m256i a = _mm256_permutevar8x32_epi32(load_words(terms + 2 * i), evens),
                    b = _mm256_permutevar8x32_epi32(load_words(terms + 2 * i + 8), evens);
      alignas(32) int32_t even[8], odd[8];
      store_words(_mm256_permute2x128_si256(a, b, 0x20), even);
      store_words(_mm256_permute2x128_si256(a, b, 0x31), odd);
      pack(even, odd, 8, high + i, low + i);
    }
  }

 private:
  /// Returns the low nibbles of 16 bytes, then their high nibbles.
  static __m256i nibbles(const std::byte* qs) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(qs));
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(raw), _mm_srli_epi16(raw, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
  }
  static uint16_t half_at(const std::byte* p) {
    uint16_t half;
    __builtin_memcpy(&half, p, sizeof half);
    return half;
  }
  template <class HalfAt>
  static __m256 eight_halves(HalfAt at) {
    const auto half = [&](int i) { return static_cast<short>(at(i)); };
    return _mm256_cvtph_ps(
        _mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7)));
  }
  static uint32_t rounded(__m256 products, int32_t* out) {
    const __m256 sizes = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), products);
    const __m256 fits = _mm256_cmp_ps(sizes, _mm256_set1_ps(Terms::kLimit), _CMP_LT_OQ);
    store_words(_mm256_and_si256(_mm256_cvtps_epi32(products), _mm256_castps_si256(fits)), out);
    return ~static_cast<uint32_t>(_mm256_movemask_ps(fits)) & 0xff;
  }
  static __m256i halves(__m256i a, __m256i b) {
    return _mm256_or_si256(_mm256_and_si256(a, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(b, 16));
  }
  static __m256i load_words(const int32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store_words(__m256i words, int32_t* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
  }
};

}  // namespace
}  // namespace hearth
