// Unpacks spans of 32 weights to bytes in registers, for matmul_*.cu, the kernels in experts/ and
// gather_embeddings.cu. Types that only experts have are in experts/decoded_blocks.cuh.
// kernels/quant/formats.h and decode.cpp define the formats.
#pragma once

#include "kernels/cuda/matmul/load_words.cuh"
#include "kernels/quant/formats.h"

namespace hearth::cuda {

inline constexpr int kSpan = 32;

/// weight = scale * (stored - kStoredOffset<Block>) + min. `stored` is an unpacked byte, read as signed;
/// scale and min belong to the weight's group.
template <class Block>
inline constexpr int kStoredOffset = Block::kOffset == 128 || kDecodedFirst<Block> ? 0 : Block::kOffset;
template <>
inline constexpr int kStoredOffset<BlockMXFP4> = 0;

/// The largest power of two, at most 16, that divides the size of a block. If the first block of packed rows
/// has this alignment, all other blocks have it, too.
template <class Block>
inline constexpr int kBlockAlign = static_cast<int>((sizeof(Block) & -sizeof(Block)) < 16
                                                        ? sizeof(Block) & -sizeof(Block)
                                                        : 16);

/// The alignment of all blocks in rows of experts that have the layout of kernels/cuda/ops/expert_types.h and
/// begin at a multiple of 16 bytes.
template <class Block>
inline constexpr int kSlotAlign = kBlockAlign<Block>;
template <>
inline constexpr int kSlotAlign<BlockMXFP4> = 16;

template <class Block>
struct Span {
  static constexpr int kGroups = kSpan / Block::kGroup;  // 1 or 2
  unsigned words[8];                                     // byte b of word k belongs to column 4k + b
  float scale[kGroups];
  float min[kGroups];  // for types with mins
};

// load_span<kAlign>(row, s, out) unpacks span s of the row. The address of every block must be a multiple of
// kAlign, which is 2 or kBlockAlign.

__device__ __forceinline__ void split_nibbles(const unsigned* packed, unsigned* words) {
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    words[i] = packed[i] & 0x0f0f0f0fu;
    words[4 + i] = (packed[i] >> 4) & 0x0f0f0f0fu;
  }
}

// Adds the fifth bits of 32 weights to their words. Bit i of `bits` is the fifth bit of weight i.
__device__ __forceinline__ void add_fifth_bits(unsigned bits, unsigned* words) {
  GPU_UNROLL
  for (int k = 0; k < 8; ++k) {
    // The multiplication makes four copies of the four bits, beginning at bits 4, 11, 18 and 25. So bit b of
    // copy b is at bit 8b + 4, which is the fifth bit of byte b.
    words[k] |= (((bits >> (4 * k)) & 15u) * 0x02040810u) & 0x10101010u;
  }
}

/// Packs four of the 16 values, from number `first` on, into a word.
template <const int8_t (&kValues)[16]>
__host__ __device__ constexpr unsigned word_of_values(int first) {
  unsigned word = 0;
  for (int i = 0; i < 4; ++i) word |= (static_cast<unsigned>(kValues[first + i]) & 0xffu) << (8 * i);
  return word;
}

// Looks up the values of the four nibbles in the lower 16 bits of `nibbles`, and returns them as bytes in the
// same order.
template <const int8_t (&kValues)[16]>
__device__ __forceinline__ unsigned look_up_four(unsigned nibbles) {
  constexpr unsigned kTable[4] = {word_of_values<kValues>(0), word_of_values<kValues>(4),
                                  word_of_values<kValues>(8), word_of_values<kValues>(12)};
  const unsigned index = nibbles & 0x7777u;
  const unsigned lower = __byte_perm(kTable[0], kTable[1], index);
  const unsigned upper = __byte_perm(kTable[2], kTable[3], index);
  return __byte_perm(lower, upper, 0x3210u | ((nibbles & 0x8888u) >> 1));
}

template <const int8_t (&kValues)[16]>
__device__ __forceinline__ void look_up_nibbles(const unsigned* packed, unsigned* words) {
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const unsigned first = look_up_four<kValues>(packed[i]), second = look_up_four<kValues>(packed[i] >> 16);
    words[i] = __byte_perm(first, second, 0x6420);
    words[4 + i] = __byte_perm(first, second, 0x7531);
  }
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ4_0>& out) {
  unsigned d, packed[4];
  load_half_and_words<4>(row + s * sizeof(BlockQ4_0), d, packed);
  split_nibbles(packed, out.words);
  out.scale[0] = half_to_float(d);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ4_1>& out) {
  unsigned packed[5];
  load_words<kAlign, 5>(row + s * sizeof(BlockQ4_1), packed);
  split_nibbles(packed + 1, out.words);
  out.scale[0] = half_to_float(packed[0] & 0xffffu);
  out.min[0] = half_to_float(packed[0] >> 16);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ5_0>& out) {
  unsigned d, packed[5];
  load_half_and_words<5>(row + s * sizeof(BlockQ5_0), d, packed);
  split_nibbles(packed + 1, out.words);
  add_fifth_bits(packed[0], out.words);
  out.scale[0] = half_to_float(d);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ5_1>& out) {
  unsigned packed[6];
  load_words<kAlign, 6>(row + s * sizeof(BlockQ5_1), packed);
  split_nibbles(packed + 2, out.words);
  add_fifth_bits(packed[1], out.words);
  out.scale[0] = half_to_float(packed[0] & 0xffffu);
  out.min[0] = half_to_float(packed[0] >> 16);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ8_0>& out) {
  unsigned d;
  load_half_and_words<8>(row + s * sizeof(BlockQ8_0), d, out.words);
  out.scale[0] = half_to_float(d);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ4_NL>& out) {
  unsigned d, packed[4];
  load_half_and_words<4>(row + s * sizeof(BlockIQ4_NL), d, packed);
  look_up_nibbles<kIq4Values>(packed, out.words);
  out.scale[0] = half_to_float(d);
}

// Sets the scale of group k from the first two words of a block.
__device__ __forceinline__ void set_iq4_factors(unsigned first, unsigned second, int k,
                                                Span<BlockIQ4_XS>& out) {
  const unsigned low = (second >> (4 * k)) & 15u, high = (first >> (16 + 2 * k)) & 3u;
  const int scale = static_cast<int>(low | (high << 4)) - 32;
  out.scale[0] = __fmul_rn(half_to_float(first & 0xffffu), __int2float_rn(scale));
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ4_XS>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ4_XS);
  const int k = s % 8;
  unsigned head[2], packed[4];
  load_words<kAlign, 2>(block, head);
  load_words<kAlign, 4>(block + offsetof(BlockIQ4_XS, qs) + 16 * k, packed);
  look_up_nibbles<kIq4Values>(packed, out.words);
  set_iq4_factors(head[0], head[1], k, out);
}

// The row has the layout of expert_types.h: runs of 16 scale bytes followed by the nibbles of 16 spans. The
// scale is 2^(e - 128). It is computed as the product of two powers of two, each with about half of this
// exponent, because the smallest scales are subnormal numbers.
template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockMXFP4>& out) {
  static_assert(kAlign == 16);
  constexpr int kRunSpans = 16, kNibbles = sizeof(BlockMXFP4::qs);
  const uint8_t* run = row + s / kRunSpans * (kRunSpans * (1 + kNibbles));
  const unsigned e = __ldg(run + s % kRunSpans), half = e / 2;
  unsigned packed[4];
  load_words<kAlign, 4>(run + kRunSpans + s % kRunSpans * kNibbles, packed);
  look_up_nibbles<kFloat4Values>(packed, out.words);
  out.scale[0] = __fmul_rn(__uint_as_float((half + 63) << 23), __uint_as_float((e - half + 63) << 23));
}

// ---- blocks of 256 weights with two levels of scales -----------------------------------------------------

// Sets the factors of a group: scale = d * `scale`, min = -(dmin * `min`), where `scale` and `min` are the
// stored integers.
template <class Block>
__device__ __forceinline__ void set_factors(Span<Block>& out, int group, float d, float dmin, unsigned scale,
                                            unsigned min) {
  out.scale[group] = __fmul_rn(d, __uint2float_rn(scale));
  out.min[group] = -__fmul_rn(dmin, __uint2float_rn(min));
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ2_K>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockQ2_K);
  const int k = s % 8;
  unsigned packed[8], d;
  load_words<kAlign, 8>(block + offsetof(BlockQ2_K, qs) + 32 * (k / 4), packed);
  load_words<kAlign, 1>(block + offsetof(BlockQ2_K, d), &d);
  const unsigned factors = load_half_word(block + offsetof(BlockQ2_K, scales) + 2 * k);
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) out.words[i] = (packed[i] >> (2 * (k % 4))) & 0x03030303u;
  const float scale = half_to_float(d & 0xffffu), min = half_to_float(d >> 16);
  set_factors(out, 0, scale, min, factors & 15u, (factors >> 4) & 15u);
  set_factors(out, 1, scale, min, (factors >> 8) & 15u, factors >> 12);
}

// Sets the scales of a span's two groups. The lower four bits of the bytes of `low` and the lower two of
// those of `high` are the bits of the scales.
__device__ __forceinline__ void set_k3_factors(unsigned low, unsigned high, float d, Span<BlockQ3_K>& out) {
  GPU_UNROLL
  for (int g = 0; g < 2; ++g) {
    const int bits = static_cast<int>(((low >> (8 * g)) & 15u) | (((high >> (8 * g)) & 3u) << 4));
    out.scale[g] = __fmul_rn(d, __int2float_rn(bits - 32));
  }
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ3_K>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockQ3_K);
  const int k = s % 8;  // groups 2k and 2k + 1
  unsigned packed[8], third[8];
  load_words<2, 8>(block + offsetof(BlockQ3_K, qs) + 32 * (k / 4), packed);
  load_words<2, 8>(block + offsetof(BlockQ3_K, hmask), third);
  const uint8_t* scales = block + offsetof(BlockQ3_K, scales);
  const unsigned low = load_half_word(scales + 2 * (k % 4)) >> (4 * (k / 4));
  const unsigned high = load_half_word(scales + 8 + 2 * (k % 2)) >> (2 * (k / 2));
  const float d = half_to_float(load_half_word(block + offsetof(BlockQ3_K, d)));
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) {
    out.words[i] = ((packed[i] >> (2 * (k % 4))) & 0x03030303u) | (((third[i] >> k) & 0x01010101u) << 2);
  }
  set_k3_factors(low, high, d, out);
}

// Extracts the 6-bit scale and min of group k from 12 bytes of a Q4_K or Q5_K block, as k_scale_min() in
// decode.cpp does.
template <class Block>
__device__ __forceinline__ void set_k_factors(const unsigned* head, int k, Span<Block>& out) {
  const int shift = 8 * (k % 4);
  const unsigned first = head[1] >> shift, second = head[2] >> shift, third = head[3] >> shift;
  const unsigned scale = k < 4 ? first & 63u : (third & 15u) | ((first >> 2) & 48u);
  const unsigned min = k < 4 ? second & 63u : ((third >> 4) & 15u) | ((second >> 2) & 48u);
  set_factors(out, 0, half_to_float(head[0] & 0xffffu), half_to_float(head[0] >> 16), scale, min);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ4_K>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockQ4_K);
  const int k = s % 8;
  unsigned head[4], packed[8];
  load_words<kAlign, 4>(block, head);
  load_words<kAlign, 8>(block + offsetof(BlockQ4_K, qs) + 32 * (k / 2), packed);
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) out.words[i] = (packed[i] >> (4 * (k % 2))) & 0x0f0f0f0fu;
  set_k_factors(head, k, out);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ5_K>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockQ5_K);
  const int k = s % 8;
  unsigned head[4], packed[8], fifth[8];
  load_words<kAlign, 4>(block, head);
  load_words<kAlign, 8>(block + offsetof(BlockQ5_K, qs) + 32 * (k / 2), packed);
  load_words<kAlign, 8>(block + offsetof(BlockQ5_K, qh), fifth);
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) {
    out.words[i] = ((packed[i] >> (4 * (k % 2))) & 0x0f0f0f0fu) | (((fifth[i] >> k) & 0x01010101u) << 4);
  }
  set_k_factors(head, k, out);
}

// Sets the scales of a span's two groups from their two bytes.
__device__ __forceinline__ void set_k6_factors(unsigned scales, float d, Span<BlockQ6_K>& out) {
  out.scale[0] = __fmul_rn(d, __int2float_rn(static_cast<int8_t>(scales & 0xffu)));
  out.scale[1] = __fmul_rn(d, __int2float_rn(static_cast<int8_t>(scales >> 8)));
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockQ6_K>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockQ6_K);
  const int k = s % 8, half = k / 4, j = k % 4;
  unsigned packed[8], top[8];
  load_words<2, 8>(block + offsetof(BlockQ6_K, ql) + 64 * half + 32 * (j % 2), packed);
  load_words<2, 8>(block + offsetof(BlockQ6_K, qh) + 32 * half, top);
  const unsigned scales = load_half_word(block + offsetof(BlockQ6_K, scales) + 2 * k);
  const float d = half_to_float(load_half_word(block + offsetof(BlockQ6_K, d)));
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) {
    out.words[i] = ((packed[i] >> (4 * (j / 2))) & 0x0f0f0f0fu) | (((top[i] >> (2 * j)) & 0x03030303u) << 4);
  }
  set_k6_factors(scales, d, out);
}

}  // namespace hearth::cuda
