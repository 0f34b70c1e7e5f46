// Unpacks parts of spans of weights that are in shared memory, for matmul_batches.cu. A lane of a warp needs
// eight weights of a span in the layout of the tensor cores: words q and 4 + q of the span's eight words
// (Span::words of blocks.cuh), where q is lane % 4. So the four lanes of a row unpack a span together, and no
// unpacked weights are stored.
//
// `block` points to a block in shared memory and has the block's alignment, kBlockAlign. k is the number of
// the span in the block.
#pragma once

#include <type_traits>

#include "kernels/cuda/matmul/blocks.cuh"

namespace hearth::cuda {

/// Loads the word at p in shared memory, which is a multiple of kAlign. With kAlign 2, two aligned words are
/// read, so the memory must extend to the end of the second.
template <int kAlign>
__device__ __forceinline__ unsigned shared_word(const uint8_t* p) {
  if constexpr (kAlign >= 4) return *gpu_aligned<unsigned>(p);
  const auto odd = static_cast<unsigned>(reinterpret_cast<uintptr_t>(p)) & 2u;
  const auto* words = gpu_aligned<unsigned>(p - odd);
  return __byte_perm(words[0], words[1], odd != 0 ? 0x5432 : 0x3210);
}
__device__ __forceinline__ unsigned shared_half(const uint8_t* p) { return *gpu_aligned<uint16_t>(p); }
template <int kAlign>
__device__ __forceinline__ void shared_words(const uint8_t* p, unsigned (&out)[2]) {
  out[0] = shared_word<kAlign>(p);
  out[1] = shared_word<kAlign>(p + 16);
}

/// Two words of a span.
struct SpanPart {
  unsigned words[2];
};
/// The factors of a span.
template <class Block>
struct SpanFactors {
  float scale[Span<Block>::kGroups];
  float min[Span<Block>::kGroups];  // for types with mins
};

__device__ __forceinline__ void part_of_nibbles(unsigned packed, SpanPart& out) {
  out.words[0] = packed & 0x0f0f0f0fu;
  out.words[1] = (packed >> 4) & 0x0f0f0f0fu;
}
/// Adds the fifth bits; bit i of `bits` is the fifth bit of weight i of the span.
__device__ __forceinline__ void add_fifth_bits_of_part(unsigned bits, int q, SpanPart& out) {
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    out.words[i] |= (((bits >> (4 * q + 16 * i)) & 15u) * 0x02040810u) & 0x10101010u;
  }
}
__device__ __forceinline__ void part_of_values(unsigned packed, SpanPart& out) {
  const unsigned first = look_up_four<kIq4Values>(packed), second = look_up_four<kIq4Values>(packed >> 16);
  out.words[0] = __byte_perm(first, second, 0x6420);
  out.words[1] = __byte_perm(first, second, 0x7531);
}

__device__ __forceinline__ void load_part(const uint8_t* block, int, int q, SpanPart& out, BlockQ4_0) {
  part_of_nibbles(shared_word<2>(block + offsetof(BlockQ4_0, qs) + 4 * q), out);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int, int q, SpanPart& out, BlockQ4_1) {
  part_of_nibbles(shared_word<4>(block + offsetof(BlockQ4_1, qs) + 4 * q), out);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int, int q, SpanPart& out, BlockQ5_0) {
  part_of_nibbles(shared_word<2>(block + offsetof(BlockQ5_0, qs) + 4 * q), out);
  add_fifth_bits_of_part(shared_word<2>(block + offsetof(BlockQ5_0, qh)), q, out);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int, int q, SpanPart& out, BlockQ5_1) {
  part_of_nibbles(shared_word<4>(block + offsetof(BlockQ5_1, qs) + 4 * q), out);
  add_fifth_bits_of_part(shared_word<4>(block + offsetof(BlockQ5_1, qh)), q, out);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int, int q, SpanPart& out, BlockQ8_0) {
  shared_words<2>(block + offsetof(BlockQ8_0, qs) + 4 * q, out.words);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int, int q, SpanPart& out, BlockIQ4_NL) {
  part_of_values(shared_word<2>(block + offsetof(BlockIQ4_NL, qs) + 4 * q), out);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int k, int q, SpanPart& out, BlockIQ4_XS) {
  part_of_values(shared_word<4>(block + offsetof(BlockIQ4_XS, qs) + 16 * k + 4 * q), out);
}
__device__ __forceinline__ void load_part(const uint8_t* block, int k, int q, SpanPart& out, BlockQ2_K) {
  unsigned packed[2];
  shared_words<4>(block + offsetof(BlockQ2_K, qs) + 32 * (k / 4) + 4 * q, packed);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) out.words[i] = (packed[i] >> (2 * (k % 4))) & 0x03030303u;
}
__device__ __forceinline__ void load_part(const uint8_t* block, int k, int q, SpanPart& out, BlockQ3_K) {
  unsigned packed[2], third[2];
  shared_words<2>(block + offsetof(BlockQ3_K, qs) + 32 * (k / 4) + 4 * q, packed);
  shared_words<2>(block + offsetof(BlockQ3_K, hmask) + 4 * q, third);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    out.words[i] = ((packed[i] >> (2 * (k % 4))) & 0x03030303u) | (((third[i] >> k) & 0x01010101u) << 2);
  }
}
__device__ __forceinline__ void load_part(const uint8_t* block, int k, int q, SpanPart& out, BlockQ4_K) {
  unsigned packed[2];
  shared_words<4>(block + offsetof(BlockQ4_K, qs) + 32 * (k / 2) + 4 * q, packed);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) out.words[i] = (packed[i] >> (4 * (k % 2))) & 0x0f0f0f0fu;
}
__device__ __forceinline__ void load_part(const uint8_t* block, int k, int q, SpanPart& out, BlockQ5_K) {
  unsigned packed[2], fifth[2];
  shared_words<4>(block + offsetof(BlockQ5_K, qs) + 32 * (k / 2) + 4 * q, packed);
  shared_words<4>(block + offsetof(BlockQ5_K, qh) + 4 * q, fifth);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    out.words[i] = ((packed[i] >> (4 * (k % 2))) & 0x0f0f0f0fu) | (((fifth[i] >> k) & 0x01010101u) << 4);
  }
}
__device__ __forceinline__ void load_part(const uint8_t* block, int k, int q, SpanPart& out, BlockQ6_K) {
  const int half = k / 4, j = k % 4;
  unsigned packed[2], top[2];
  shared_words<2>(block + offsetof(BlockQ6_K, ql) + 64 * half + 32 * (j % 2) + 4 * q, packed);
  shared_words<2>(block + offsetof(BlockQ6_K, qh) + 32 * half + 4 * q, top);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    out.words[i] = ((packed[i] >> (4 * (j / 2))) & 0x0f0f0f0fu) | (((top[i] >> (2 * j)) & 0x03030303u) << 4);
  }
}

/// Loads words q and 4 + q of span k, without the stored offset.
template <class Block>
__device__ __forceinline__ SpanPart span_part(const uint8_t* block, int k, int q) {
  SpanPart part;
  load_part(block, k, q, part, Block{});
  return part;
}

// load_factors(block, k) returns the factors of span k.
__device__ __forceinline__ float shared_half_float(const uint8_t* p) { return half_to_float(shared_half(p)); }
template <class Block>
requires(Block::kElems ==
         kSpan) __device__ __forceinline__ SpanFactors<Block> load_factors(const uint8_t* block, int) {
  SpanFactors<Block> out{};
  out.scale[0] = shared_half_float(block);  // every such block begins with its scale and its min
  if constexpr (Block::kHasMin) out.min[0] = shared_half_float(block + 2);
  return out;
}
/// The factors that load_span() computes from the same bytes.
template <class Block>
__device__ __forceinline__ SpanFactors<Block> factors_of(const Span<Block>& span) {
  SpanFactors<Block> out{};
  GPU_UNROLL
  for (int g = 0; g < Span<Block>::kGroups; ++g) {
    out.scale[g] = span.scale[g];
    if constexpr (Block::kHasMin) out.min[g] = span.min[g];
  }
  return out;
}
template <class Block>
requires(std::is_same_v<Block, BlockQ2_K>)
    __device__ __forceinline__ SpanFactors<Block> load_factors(const uint8_t* block, int k) {
  Span<Block> span;
  const unsigned factors = shared_half(block + offsetof(Block, scales) + 2 * k);
  const float scale = shared_half_float(block + offsetof(Block, d)),
              min = shared_half_float(block + offsetof(Block, dmin));
  set_factors(span, 0, scale, min, factors & 15u, (factors >> 4) & 15u);
  set_factors(span, 1, scale, min, (factors >> 8) & 15u, factors >> 12);
  return factors_of(span);
}
template <class Block>
requires(std::is_same_v<Block, BlockQ3_K>)
    __device__ __forceinline__ SpanFactors<Block> load_factors(const uint8_t* block, int k) {
  const uint8_t* scales = block + offsetof(Block, scales);
  const unsigned low = shared_half(scales + 2 * (k % 4)) >> (4 * (k / 4));
  const unsigned high = shared_half(scales + 8 + 2 * (k % 2)) >> (2 * (k / 2));
  Span<Block> span;
  set_k3_factors(low, high, shared_half_float(block + offsetof(Block, d)), span);
  return factors_of(span);
}
template <class Block>
requires(std::is_same_v<Block, BlockQ4_K> || std::is_same_v<Block, BlockQ5_K>)
    __device__ __forceinline__ SpanFactors<Block> load_factors(const uint8_t* block, int k) {
  const uint4 packed = *gpu_aligned<uint4>(block);
  const unsigned head[4] = {packed.x, packed.y, packed.z, packed.w};
  Span<Block> span;
  set_k_factors(head, k, span);
  return factors_of(span);
}
template <class Block>
requires(std::is_same_v<Block, BlockQ6_K>)
    __device__ __forceinline__ SpanFactors<Block> load_factors(const uint8_t* block, int k) {
  Span<Block> span;
  set_k6_factors(shared_half(block + offsetof(Block, scales) + 2 * k),
                 shared_half_float(block + offsetof(Block, d)), span);
  return factors_of(span);
}
template <class Block>
requires(std::is_same_v<Block, BlockIQ4_XS>)
    __device__ __forceinline__ SpanFactors<Block> load_factors(const uint8_t* block, int k) {
  Span<Block> span;
  set_iq4_factors(shared_word<4>(block), shared_word<4>(block + 4), k, span);
  return factors_of(span);
}

}  // namespace hearth::cuda
