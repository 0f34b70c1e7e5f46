// Unpacks spans of 32 weights, like matmul/blocks.cuh, of the types that the CPU decodes block by block
// (kDecodedFirst). Only experts have these types on a device. kernels/quant/decode.cpp and decode_grids.cpp
// define them.
//
// Rows have the file's layout: their blocks are small, and begin at even addresses.
#pragma once

#include "kernels/cuda/matmul/blocks.cuh"
#include "kernels/quant/grids.h"

namespace hearth::cuda {

// Returns half the value of an unsigned float with 4 bits of exponent and 3 of fraction, as
// half_of_ue4m3() in decode.cpp does. In the place of a float's exponent and fraction, the bits stand for the
// value times 2^-120, which is a subnormal float if the exponent is 0.
__device__ __forceinline__ float half_of_ue4m3(unsigned bits) {
  const float value = __fmul_rn(__uint_as_float((bits & 0x7fu) << 20), 0x1p119f);
  return bits == 0x7fu ? 0.0f : value;
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockNVFP4>& out) {
  const uint8_t* block = row + s / 2 * sizeof(BlockNVFP4);
  const int half = s % 2;  // groups 2 * half and 2 * half + 1
  unsigned packed[4], words[8];
  const unsigned factors = load_half_word(block + offsetof(BlockNVFP4, d) + 2 * half);
  load_words<kAlign, 4>(block + offsetof(BlockNVFP4, qs) + 16 * half, packed);
  look_up_nibbles<kFloat4Values>(packed, words);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    GPU_UNROLL
    for (int j = 0; j < 2; ++j) {
      out.words[4 * i + j] = words[2 * i + j];          // low nibbles
      out.words[4 * i + 2 + j] = words[4 + 2 * i + j];  // high nibbles
    }
  }
  out.scale[0] = half_of_ue4m3(factors & 0xffu);
  out.scale[1] = half_of_ue4m3(factors >> 8);
}

// ---- IQ2 and IQ3: grid points with a sign for each weight ------------------------------------------------

/// The points of a grid, in device memory. A nibble of a point selects the value of one weight, so
/// __byte_perm() can look up the values of four weights with the point as its selector. Threads read points
/// at scattered addresses, which constant memory would serve one by one. The L1 cache holds the 0.5 to 8 KB
/// of a grid.
template <class Point, size_t n>
struct Grid {
  Point points[n];
};

/// A grid of 4 weights per point, whose indices have 4 bits.
template <size_t n>
constexpr Grid<uint16_t, n> grid_of_four(const uint16_t (&points)[n]) {
  Grid<uint16_t, n> grid{};
  for (size_t i = 0; i < n; ++i) grid.points[i] = points[i];
  return grid;
}

/// A grid of 8 weights per point, whose indices have 2 bits and are spread to nibbles.
template <size_t n>
constexpr Grid<uint32_t, n> grid_of_eight(const uint16_t (&points)[n]) {
  Grid<uint32_t, n> grid{};
  for (size_t i = 0; i < n; ++i) {
    for (int k = 0; k < 8; ++k) grid.points[i] |= (points[i] >> (2 * k) & 3u) << (4 * k);
  }
  return grid;
}

__device__ constexpr auto kIq2XxsGrid = grid_of_eight(kIq2XxsPoints);
__device__ constexpr auto kIq2XsGrid = grid_of_eight(kIq2XsPoints);
__device__ constexpr auto kIq2SGrid = grid_of_eight(kIq2SPoints);
__device__ constexpr auto kIq3XxsGrid = grid_of_four(kIq3XxsPoints);
__device__ constexpr auto kIq3SGrid = grid_of_four(kIq3SPoints);

/// Packs up to four of a grid's n values, from number `first` on, into a word.
template <size_t n>
__host__ __device__ constexpr unsigned word_of_grid(const int8_t (&values)[n], size_t first) {
  unsigned word = 0;
  for (size_t i = first; i < n && i < first + 4; ++i)
    word |= (static_cast<unsigned>(values[i]) & 0xffu) << (8 * (i - first));
  return word;
}

// Returns the values of the four weights that the lower 16 bits of `point` select, one per byte.
template <const auto& kValues>
__device__ __forceinline__ unsigned look_up_point(unsigned point) {
  constexpr unsigned kLower = word_of_grid(kValues, 0), kUpper = word_of_grid(kValues, 4);
  return __byte_perm(kLower, kUpper, point);
}

// Negates byte b of `weights` if bit b of `signs` is set. No byte is 0, so adding 1 to a byte's complement
// does not carry.
__device__ __forceinline__ unsigned with_signs(unsigned weights, unsigned signs) {
  // The multiplication copies the four bits to places 7 bits apart, so that one copy has bit b at bit 8b.
  const unsigned minus = ((signs & 15u) * 0x00204081u) & 0x01010101u;
  return (weights ^ (minus * 255u)) + minus;
}

// Returns eight signs. The lower seven bits of `bits` are the first seven; the eighth makes the number of
// minus signs even.
__device__ __forceinline__ unsigned eight_signs(unsigned bits) {
  const unsigned seven = bits & 127u;
  return seven | (static_cast<unsigned>(__popc(seven)) & 1u) << 7;
}

// Unpacks the 8 weights of a point of IQ2.
template <const auto& kValues>
__device__ __forceinline__ void unpack_point(unsigned point, unsigned signs, unsigned* words) {
  words[0] = with_signs(look_up_point<kValues>(point), signs);
  words[1] = with_signs(look_up_point<kValues>(point >> 16), signs >> 4);
}

// d * (bits + 1/2), the form of the scales of IQ2 and IQ3_XXS; exact.
__device__ __forceinline__ float halfway_scale(float d, unsigned bits) {
  return __fmul_rn(d, __fadd_rn(0.5f, __uint2float_rn(bits)));
}

__device__ __forceinline__ float load_half(const uint8_t* p) { return half_to_float(load_half_word(p)); }

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ2_XXS>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ2_XXS);
  unsigned packed[2];  // four indices; signs and scale
  load_words<2, 2>(block + offsetof(BlockIQ2_XXS, qs) + 8 * (s % 8), packed);
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const unsigned point = __ldg(kIq2XxsGrid.points + ((packed[0] >> (8 * i)) & 0xffu));
    unpack_point<kIq2XxsValues>(point, eight_signs(packed[1] >> (7 * i)), out.words + 2 * i);
  }
  const float d = load_half(block + offsetof(BlockIQ2_XXS, d));
  out.scale[0] = halfway_scale(__fmul_rn(d, 0.25f), packed[1] >> 28);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ2_XS>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ2_XS);
  unsigned packed[2];  // two indices with their signs in each word
  load_words<2, 2>(block + offsetof(BlockIQ2_XS, qs) + 8 * (s % 8), packed);
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const unsigned both = packed[i / 2] >> (16 * (i % 2));
    const unsigned point = __ldg(kIq2XsGrid.points + (both & 511u));
    unpack_point<kIq2XsValues>(point, eight_signs(both >> 9), out.words + 2 * i);
  }
  const float d = __fmul_rn(load_half(block + offsetof(BlockIQ2_XS, d)), 0.25f);
  const unsigned scales = __ldg(block + offsetof(BlockIQ2_XS, scales) + s % 8);
  out.scale[0] = halfway_scale(d, scales & 15u);
  out.scale[1] = halfway_scale(d, scales >> 4);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ2_S>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ2_S);
  const int k = s % 8;
  unsigned indices, signs;
  load_words<2, 1>(block + offsetof(BlockIQ2_S, qs) + 4 * k, &indices);
  load_words<2, 1>(block + offsetof(BlockIQ2_S, signs) + 4 * k, &signs);
  const unsigned high = __ldg(block + offsetof(BlockIQ2_S, qh) + k);
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const unsigned index = ((indices >> (8 * i)) & 0xffu) | ((high >> (2 * i)) & 3u) << 8;
    unpack_point<kIq2SValues>(__ldg(kIq2SGrid.points + index), signs >> (8 * i), out.words + 2 * i);
  }
  const float d = __fmul_rn(load_half(block + offsetof(BlockIQ2_S, d)), 0.25f);
  const unsigned scales = __ldg(block + offsetof(BlockIQ2_S, scales) + k);
  out.scale[0] = halfway_scale(d, scales & 15u);
  out.scale[1] = halfway_scale(d, scales >> 4);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ3_XXS>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ3_XXS);
  const int k = s % 8;
  unsigned indices[2], factors;
  load_words<2, 2>(block + offsetof(BlockIQ3_XXS, qs) + 8 * k, indices);
  load_words<2, 1>(block + offsetof(BlockIQ3_XXS, factors) + 4 * k, &factors);
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) {
    const unsigned point = __ldg(kIq3XxsGrid.points + ((indices[i / 4] >> (8 * (i % 4))) & 0xffu));
    const unsigned signs = eight_signs(factors >> (7 * (i / 2))) >> (4 * (i % 2));
    out.words[i] = with_signs(look_up_point<kIq3XxsValues>(point), signs);
  }
  const float d = load_half(block + offsetof(BlockIQ3_XXS, d));
  out.scale[0] = halfway_scale(__fmul_rn(d, 0.5f), factors >> 28);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ3_S>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ3_S);
  const int k = s % 8;
  unsigned indices[2], signs;
  load_words<2, 2>(block + offsetof(BlockIQ3_S, qs) + 8 * k, indices);
  load_words<2, 1>(block + offsetof(BlockIQ3_S, signs) + 4 * k, &signs);
  const unsigned high = __ldg(block + offsetof(BlockIQ3_S, qh) + k);
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) {
    const unsigned index = ((indices[i / 4] >> (8 * (i % 4))) & 0xffu) | ((high << (8 - i)) & 256u);
    const unsigned point = __ldg(kIq3SGrid.points + index);
    out.words[i] = with_signs(look_up_point<kIq3SValues>(point), signs >> (4 * i));
  }
  const unsigned scale = (__ldg(block + offsetof(BlockIQ3_S, scales) + k / 2) >> (4 * (k % 2))) & 15u;
  out.scale[0] = __fmul_rn(load_half(block + offsetof(BlockIQ3_S, d)), __uint2float_rn(1 + 2 * scale));
}

// ---- IQ1: grid points, each shifted up or down by an eighth ----------------------------------------------

__device__ constexpr auto kIq1Grid = grid_of_eight(kIq1SPoints);

// Packs the three values of IQ1 in eighths, plus `shift`, into a word.
__host__ __device__ constexpr unsigned iq1_values(int shift) {
  unsigned word = 0;
  for (int i = 0; i < 3; ++i) word |= (static_cast<unsigned>(8 * (i - 1) + shift) & 0xffu) << (8 * i);
  return word;
}
static_assert(kIq1SValues[0] == -1 && kIq1SValues[1] == 0 && kIq1SValues[2] == 1);

// Unpacks the 8 weights of a point of IQ1. less: whether an eighth is subtracted.
__device__ __forceinline__ void unpack_iq1(unsigned index, bool less, unsigned* words) {
  constexpr unsigned kLess = iq1_values(-1), kMore = iq1_values(1);
  const unsigned values = less ? kLess : kMore, point = __ldg(kIq1Grid.points + index);
  words[0] = __byte_perm(values, 0, point);
  words[1] = __byte_perm(values, 0, point >> 16);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ1_S>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ1_S);
  const int k = s % 8;
  unsigned indices;
  load_words<2, 1>(block + offsetof(BlockIQ1_S, qs) + 4 * k, &indices);
  const unsigned bits = load_half_word(block + offsetof(BlockIQ1_S, qh) + 2 * k);
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const unsigned index = ((indices >> (8 * i)) & 0xffu) | ((bits >> (3 * i)) & 7u) << 8;
    unpack_iq1(index, (bits & 0x8000u) != 0, out.words + 2 * i);
  }
  const float d = __fmul_rn(load_half(block + offsetof(BlockIQ1_S, d)), 0.125f);
  out.scale[0] = __fmul_rn(d, __uint2float_rn(2 * ((bits >> 12) & 7u) + 1));
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockIQ1_M>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockIQ1_M);
  const int k = s % 8;
  unsigned indices, scales[2];
  load_words<kAlign, 1>(block + offsetof(BlockIQ1_M, qs) + 4 * k, &indices);
  load_words<kAlign, 2>(block + offsetof(BlockIQ1_M, scales), scales);
  const unsigned bits = load_half_word(block + offsetof(BlockIQ1_M, qh) + 2 * k);
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const unsigned of_point = bits >> (4 * i);
    const unsigned index = ((indices >> (8 * i)) & 0xffu) | (of_point & 7u) << 8;
    unpack_iq1(index, (of_point & 8u) != 0, out.words + 2 * i);
  }
  const unsigned half = ((scales[0] >> 12) & 15u) | (scales[0] >> 28) << 4 | ((scales[1] >> 12) & 15u) << 8 |
                        (scales[1] >> 28) << 12;
  const float d = __fmul_rn(half_to_float(half), 0.125f);
  const unsigned own = (k < 4 ? scales[0] : scales[1]) >> (16 * (k / 2 % 2) + 6 * (k % 2));
  out.scale[0] = __fmul_rn(d, __uint2float_rn(2 * (own & 7u) + 1));
  out.scale[1] = __fmul_rn(d, __uint2float_rn(2 * ((own >> 3) & 7u) + 1));
}

// ---- TQ: weights of -1, 0 and 1 --------------------------------------------------------------------------

template <>
inline constexpr int kStoredOffset<BlockTQ1_0> = 1;
template <>
inline constexpr int kStoredOffset<BlockTQ2_0> = 1;

// Returns digit n of each of four bytes (BlockTQ1_0), in two groups of 16 bits.
__device__ __forceinline__ unsigned digits_of(unsigned bytes, int n) {
  const unsigned power = n == 4 ? 81u : (0x1b090301u >> (8 * n)) & 0xffu;
  const unsigned even = ((bytes & 0x00ff00ffu) * power) & 0x00ff00ffu;
  const unsigned odd = (((bytes >> 8) & 0x00ff00ffu) * power) & 0x00ff00ffu;
  // Multiplying by 3 moves the next digit out of the low 8 bits.
  return ((even * 3 >> 8) & 0x00ff00ffu) | (odd * 3 & 0xff00ff00u);
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockTQ1_0>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockTQ1_0);
  const int k = s % 8;
  // Spans 0 to 4 come from the first 32 bytes: each span is one digit of every byte. Spans 5 to 7 come from
  // the next 16 bytes, except for the last half of span 7, which comes from the 4 bytes of qh.
  unsigned packed[8], last;
  int first = k, second = k;  // the digits in the halves of the span
  load_words<2, 1>(block + offsetof(BlockTQ1_0, qh), &last);
  if (k < 5) {
    load_words<2, 8>(block, packed);
  } else {
    first = 2 * (k - 5), second = first + 1;
    load_words<2, 4>(block + 32, packed);
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) packed[4 + i] = k == 7 ? last : packed[i];
  }
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    out.words[i] = digits_of(packed[i], first);
    out.words[4 + i] = digits_of(packed[4 + i], k == 7 ? i : second);
  }
  out.scale[0] = load_half(block + offsetof(BlockTQ1_0, d));
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockTQ2_0>& out) {
  const uint8_t* block = row + s / 8 * sizeof(BlockTQ2_0);
  const int k = s % 8;
  load_words<2, 8>(block + offsetof(BlockTQ2_0, qs) + 32 * (k / 4), out.words);
  GPU_UNROLL
  for (int i = 0; i < 8; ++i) out.words[i] = (out.words[i] >> (2 * (k % 4))) & 0x03030303u;
  out.scale[0] = load_half(block + offsetof(BlockTQ2_0, d));
}

}  // namespace hearth::cuda
