// Loads and decodes eight neighboring weights of a neuron's down row, for every tensor type. Used by
// add_down.cu.
//
// A lane first loads the bytes of several rows and then decodes them, so that the loads are in flight at the
// same time. Rows may begin at any even address, and rows of floats at multiples of the float's size. Quants
// are loaded two bytes at a time; 32 neighboring lanes still read whole cache lines. Weights have the same
// bits as from dequantize_row(): scale * q, then + min, each rounded once. Quants are stored unsigned, as
// their value plus Block::kOffset.
#pragma once

#include <type_traits>

#include "kernels/cuda/runtime/gpu.h"
#include "kernels/quant/formats.h"
#include "kernels/quant/neuron_terms.h"

namespace hearth::cuda {

/// Columns per lane.
constexpr int kLaneColumns = 8;

struct Eight {
  unsigned word[2];  // one byte per column, ascending
};

__device__ __forceinline__ unsigned load_half(const uint8_t* p) { return *gpu_aligned<uint16_t>(p); }
__device__ __forceinline__ Eight load_eight(const uint8_t* p) {
  return {{load_half(p) | load_half(p + 2) << 16, load_half(p + 4) | load_half(p + 6) << 16}};
}
__device__ __forceinline__ float half_value(unsigned bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// Extracts from every byte the bits of `mask`, after a shift to the right.
__device__ __forceinline__ Eight part_of(Eight bytes, int shift, unsigned mask) {
  return {{bytes.word[0] >> shift & mask, bytes.word[1] >> shift & mask}};
}
__device__ __forceinline__ Eight join(Eight low, Eight high, int shift) {
  return {{low.word[0] | high.word[0] << shift, low.word[1] | high.word[1] << shift}};
}
/// Returns eight bytes, of which byte k is bit k of `bits`.
__device__ __forceinline__ Eight spread_bits(unsigned bits) {
  constexpr unsigned kCopies = 0x00204081, kLowest = 0x01010101;
  return {{(bits & 15) * kCopies & kLowest, (bits >> 4 & 15) * kCopies & kLowest}};
}

constexpr unsigned kFourNibbles = 0x0f0f0f0f;

/// Looks up four nibbles in kIq4Values. Returns the four values, each plus 128, one per byte.
__device__ __forceinline__ unsigned look_up(unsigned nibbles) {
  constexpr auto values = [](int first) {
    unsigned word = 0;
    for (int i = 0; i < 4; ++i) word |= static_cast<unsigned>(kIq4Values[first + i] + 128) << (8 * i);
    return word;
  };
  constexpr unsigned kA = values(0), kB = values(4), kC = values(8), kD = values(12);
  const unsigned low = nibbles & 0x07070707;
  const unsigned places = (low | low >> 4) & 0x00ff00ff;
  const unsigned selector = (places | places >> 8) & 0xffff;
  const unsigned negative = __byte_perm(kA, kB, selector), positive = __byte_perm(kC, kD, selector);
  const unsigned mask = (nibbles >> 3 & 0x01010101) * 255;
  return (negative & ~mask) | (positive & mask);
}

/// A lane's quants and factors, as loaded and not yet decoded. Fields that a type does not use take no
/// registers.
struct RawQuants {
  Eight quants;   // low bits, not yet shifted into position
  Eight high;     // bytes with the high bits
  unsigned bits;  // for types with one high bit per column: a byte with the high bits of eight columns
  unsigned d, m;  // halves
  unsigned scale, min;
};

__device__ __forceinline__ float quant_value(unsigned word, int byte, float offset) {
  // Put the byte into the lowest bits of the float 2^23, which adds its value to 2^23.
  const unsigned raised = __byte_perm(word, 0x4b000000u, 0x7440u | static_cast<unsigned>(byte));
  return __fsub_rn(__uint_as_float(raised), 0x1p23f + offset);
}

template <class Block>
struct BlockWeights;

/// Weights [n_neurons, n_cols] of a quantized type.
template <class Block>
struct QuantRows {
  static constexpr int kRowsInFlight = 4;
  // The number of thread blocks per multiprocessor in steps of one token. It is two for the types whose
  // decoding would have too few registers with three.
  static constexpr int kBlocksPerSm = std::is_same_v<Block, BlockQ3_K> || std::is_same_v<Block, BlockQ5_K> ||
                                              std::is_same_v<Block, BlockQ6_K> ||
                                              std::is_same_v<Block, BlockIQ4_XS>
                                          ? 2
                                          : 3;
  static constexpr bool kTerms = kHasTerms<Block>;
  static constexpr float kPower = TermsOf<Block>::kPower;
  static constexpr int kShift = TermsOf<Block>::kShift, kOffset = Block::kOffset;
  static constexpr bool kMins = Block::kHasMin;
  using Raw = RawQuants;
  const uint8_t* data;
  size_t stride;

  double row_bytes(int64_t n_cols) const {
    return static_cast<double>(n_cols) / Block::kElems * sizeof(Block);
  }

  __device__ __forceinline__ void load(int32_t row, int32_t, int64_t lane, Raw& raw) const {
    constexpr int kLanes = Block::kElems / kLaneColumns;
    const uint8_t* block =
        data + static_cast<size_t>(row) * stride + static_cast<size_t>(lane / kLanes) * sizeof(Block);
    BlockWeights<Block>::load(block, static_cast<int>(lane % kLanes), raw);
  }
  /// Returns the lane's codes, which are their values plus kOffset. `scale` and `min` get the factors that
  /// all eight weights share.
  __device__ __forceinline__ Eight codes(const Raw& raw, int64_t lane, float& scale, float& min) const {
    constexpr int kLanes = Block::kElems / kLaneColumns;
    return BlockWeights<Block>::quants(raw, static_cast<int>(lane % kLanes), scale, min);
  }
  __device__ __forceinline__ void decode(const Raw& raw, int64_t lane, float (&weights)[kLaneColumns]) const {
    float scale, min = 0.0f;
    const Eight q = codes(raw, lane, scale, min);
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      weights[k] = __fmul_rn(scale, quant_value(q.word[k / 4], k % 4, Block::kOffset));
      if (Block::kHasMin) weights[k] = __fadd_rn(weights[k], min);
    }
  }
};

/// Blocks of 32 weights in 16 bytes: lanes 0 and 1 use the low nibbles, and lanes 2 and 3 the high nibbles.
__device__ __forceinline__ Eight load_nibbles(const uint8_t* qs, int lane) {
  return load_eight(qs + lane % 2 * 8);
}
__device__ __forceinline__ Eight own_nibbles(Eight bytes, int lane) {
  return part_of(bytes, lane / 2 * 4, kFourNibbles);
}

template <>
struct BlockWeights<BlockQ4_0> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.quants = load_nibbles(p + offsetof(BlockQ4_0, qs), lane);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float&) {
    scale = half_value(raw.d);
    return own_nibbles(raw.quants, lane);
  }
};

template <>
struct BlockWeights<BlockQ4_1> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.m = load_half(p + offsetof(BlockQ4_1, m));
    raw.quants = load_nibbles(p + offsetof(BlockQ4_1, qs), lane);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float& min) {
    scale = half_value(raw.d);
    min = half_value(raw.m);
    return own_nibbles(raw.quants, lane);
  }
};

template <>
struct BlockWeights<BlockQ5_0> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.bits = p[offsetof(BlockQ5_0, qh) + lane];
    raw.quants = load_nibbles(p + offsetof(BlockQ5_0, qs), lane);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float&) {
    scale = half_value(raw.d);
    return join(own_nibbles(raw.quants, lane), spread_bits(raw.bits), 4);
  }
};

template <>
struct BlockWeights<BlockQ5_1> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.m = load_half(p + offsetof(BlockQ5_1, m));
    raw.bits = p[offsetof(BlockQ5_1, qh) + lane];
    raw.quants = load_nibbles(p + offsetof(BlockQ5_1, qs), lane);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float& min) {
    scale = half_value(raw.d);
    min = half_value(raw.m);
    return join(own_nibbles(raw.quants, lane), spread_bits(raw.bits), 4);
  }
};

template <>
struct BlockWeights<BlockQ8_0> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.quants = load_eight(p + offsetof(BlockQ8_0, qs) + lane * 8);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int, float& scale, float&) {
    scale = half_value(raw.d);
    return {{raw.quants.word[0] ^ 0x80808080u, raw.quants.word[1] ^ 0x80808080u}};
  }
};

template <>
struct BlockWeights<BlockIQ4_NL> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.quants = load_nibbles(p + offsetof(BlockIQ4_NL, qs), lane);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float&) {
    scale = half_value(raw.d);
    const Eight nibbles = own_nibbles(raw.quants, lane);
    return {{look_up(nibbles.word[0]), look_up(nibbles.word[1])}};
  }
};

/// Q2_K and Q3_K have blocks of 256 weights with the same layout of 2-bit parts. Lane l has columns 8l to 8l
/// + 7, which belong to run l / 4 of a block.
template <>
struct BlockWeights<BlockQ2_K> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p + offsetof(BlockQ2_K, d));
    raw.m = load_half(p + offsetof(BlockQ2_K, dmin));
    raw.scale = p[offsetof(BlockQ2_K, scales) + lane / 2];
    raw.quants = load_eight(p + offsetof(BlockQ2_K, qs) + lane / 16 * 32 + lane % 4 * 8);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float& min) {
    scale = __fmul_rn(half_value(raw.d), static_cast<float>(raw.scale & 15));
    min = -__fmul_rn(half_value(raw.m), static_cast<float>(raw.scale >> 4));
    return part_of(raw.quants, lane / 4 % 4 * 2, 0x03030303);
  }
};

template <>
struct BlockWeights<BlockQ3_K> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    const int group = lane / 2;
    const uint8_t* scales = p + offsetof(BlockQ3_K, scales);
    raw.d = load_half(p + offsetof(BlockQ3_K, d));
    raw.scale = scales[group % 8];
    raw.min = scales[8 + group % 4];
    raw.high = load_eight(p + offsetof(BlockQ3_K, hmask) + lane % 4 * 8);
    raw.quants = load_eight(p + offsetof(BlockQ3_K, qs) + lane / 16 * 32 + lane % 4 * 8);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float&) {
    const int group = lane / 2;
    const unsigned six = (raw.scale >> (group / 8 * 4) & 15) | (raw.min >> (group / 4 * 2) & 3) << 4;
    scale = __fmul_rn(half_value(raw.d), static_cast<float>(static_cast<int>(six) - 32));
    return join(part_of(raw.quants, lane / 4 % 4 * 2, 0x03030303), part_of(raw.high, lane / 4, 0x01010101),
                2);
  }
};

/// Loads the two or three bytes that contain the 6-bit scale and min of group k in Q4_K and Q5_K
/// (kernels/quant/decode.cpp).
__device__ __forceinline__ void load_k_factors(const uint8_t* scales, int k, RawQuants& raw) {
  raw.scale = scales[k < 4 ? k : k + 4];
  raw.min = k < 4 ? scales[k + 4] : scales[k] << 8 | scales[k - 4];
}
__device__ __forceinline__ void k_factors(const RawQuants& raw, int k, float& scale, float& min) {
  unsigned s = raw.scale & 63, m = raw.min & 63;
  if (k >= 4) {
    s = (raw.scale & 15) | (raw.min >> 6 & 3) << 4;
    m = raw.scale >> 4 | (raw.min >> 14 & 3) << 4;
  }
  scale = __fmul_rn(half_value(raw.d), static_cast<float>(s));
  min = -__fmul_rn(half_value(raw.m), static_cast<float>(m));
}

template <>
struct BlockWeights<BlockQ4_K> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.m = load_half(p + offsetof(BlockQ4_K, dmin));
    load_k_factors(p + offsetof(BlockQ4_K, scales), lane / 4, raw);
    raw.quants = load_eight(p + offsetof(BlockQ4_K, qs) + lane / 8 * 32 + lane % 4 * 8);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float& min) {
    k_factors(raw, lane / 4, scale, min);
    return part_of(raw.quants, lane / 4 % 2 * 4, kFourNibbles);
  }
};

template <>
struct BlockWeights<BlockQ5_K> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    raw.d = load_half(p);
    raw.m = load_half(p + offsetof(BlockQ5_K, dmin));
    load_k_factors(p + offsetof(BlockQ5_K, scales), lane / 4, raw);
    raw.high = load_eight(p + offsetof(BlockQ5_K, qh) + lane % 4 * 8);
    raw.quants = load_eight(p + offsetof(BlockQ5_K, qs) + lane / 8 * 32 + lane % 4 * 8);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float& min) {
    k_factors(raw, lane / 4, scale, min);
    return join(part_of(raw.quants, lane / 4 % 2 * 4, kFourNibbles), part_of(raw.high, lane / 4, 0x01010101),
                4);
  }
};

template <>
struct BlockWeights<BlockQ6_K> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    const int h = lane / 16, j = lane / 4 % 4, i = lane % 4 * 8;
    raw.d = load_half(p + offsetof(BlockQ6_K, d));
    raw.scale = p[offsetof(BlockQ6_K, scales) + lane / 2];
    raw.high = load_eight(p + offsetof(BlockQ6_K, qh) + 32 * h + i);
    raw.quants = load_eight(p + offsetof(BlockQ6_K, ql) + 64 * h + 32 * (j % 2) + i);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float&) {
    const int j = lane / 4 % 4;
    scale = __fmul_rn(half_value(raw.d), static_cast<float>(static_cast<int8_t>(raw.scale)));
    return join(part_of(raw.quants, j / 2 * 4, kFourNibbles), part_of(raw.high, j * 2, 0x03030303), 4);
  }
};

template <>
struct BlockWeights<BlockIQ4_XS> {
  static __device__ __forceinline__ void load(const uint8_t* p, int lane, RawQuants& raw) {
    const int k = lane / 4;
    raw.d = load_half(p);
    raw.scale = p[offsetof(BlockIQ4_XS, scales_l) + k / 2];
    raw.min = load_half(p + offsetof(BlockIQ4_XS, scales_h));
    raw.quants = load_nibbles(p + offsetof(BlockIQ4_XS, qs) + 16 * k, lane % 4);
  }
  static __device__ __forceinline__ Eight quants(const RawQuants& raw, int lane, float& scale, float&) {
    const int k = lane / 4;
    const unsigned six = (raw.scale >> (k % 2 * 4) & 15) | (raw.min >> (k * 2) & 3) << 4;
    scale = __fmul_rn(half_value(raw.d), static_cast<float>(static_cast<int>(six) - 32));
    const Eight nibbles = own_nibbles(raw.quants, lane % 4);
    return {{look_up(nibbles.word[0]), look_up(nibbles.word[1])}};
  }
};

}  // namespace hearth::cuda
