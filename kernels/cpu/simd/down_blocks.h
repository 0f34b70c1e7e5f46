// Decodes blocks of the down projection, for types without a Format in down_strips.h. Quants become bytes in
// loops that compilers vectorize. Scales and mins are decoded one by one.
//
// The integers, scales and mins are the same as in kernels/quant/decode.h, but this code is compiled for each
// ISA.
#pragma once

#include "kernels/cpu/simd/down_strips.h"
#include "kernels/quant/decode.h"

namespace hearth {

/// A decoded block. `min` is not set for types without mins.
template <class Block>
using BlockQuants = Decoded<Block>;

/// UnpackBlock<S, Block>::run fills `out` from a block.
template <class S, class Block>
struct UnpackBlock;

/// Decodes types without vector loops, by decode_block().
template <class S, class Block>
requires kDecodedFirst<Block>
struct UnpackBlock<S, Block> {
  static void run(const Block& block, BlockQuants<Block>& out) {
    decode_block<Block>(reinterpret_cast<const std::byte*>(&block), out);
  }
};

template <class S>
[[gnu::always_inline]] inline void nibbles_to_bytes(const uint8_t* qs, int n, int8_t* q) {
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(qs[i] & 15);
  for (int i = 0; i < n; ++i) q[n + i] = static_cast<int8_t>(qs[i] >> 4);
}

/// Decodes Q5_0 and Q5_1: adds the 32 fifth bits to the nibbles, and subtracts an offset.
template <class S, class Block>
[[gnu::always_inline]] inline void unpack_five_bits(const Block& block, int8_t* q) {
  nibbles_to_bytes<S>(block.qs, 16, q);
  for (int i = 0; i < 32; ++i) {
    q[i] = static_cast<int8_t>((q[i] | (((block.qh[i / 8] >> (i % 8)) & 1) << 4)) - Block::kOffset);
  }
}

template <class S>
struct UnpackBlock<S, BlockQ5_0> {
  static void run(const BlockQ5_0& block, BlockQuants<BlockQ5_0>& out) {
    unpack_five_bits<S>(block, out.q);
    out.scale[0] = S::one_half(block.d);
  }
};

template <class S>
struct UnpackBlock<S, BlockQ5_1> {
  static void run(const BlockQ5_1& block, BlockQuants<BlockQ5_1>& out) {
    unpack_five_bits<S>(block, out.q);
    out.scale[0] = S::one_half(block.d);
    out.min[0] = S::one_half(block.m);
  }
};

template <class S>
struct UnpackBlock<S, BlockQ2_K> {
  static void run(const BlockQ2_K& block, BlockQuants<BlockQ2_K>& out) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 32; ++i) {
          out.q[128 * h + 32 * j + i] = static_cast<int8_t>((block.qs[32 * h + i] >> (2 * j)) & 3);
        }
      }
    }
    const float d = S::one_half(block.d), dmin = S::one_half(block.dmin);
    for (int k = 0; k < 16; ++k) {
      out.scale[k] = d * static_cast<float>(block.scales[k] & 15);
      out.min[k] = -(dmin * static_cast<float>(block.scales[k] >> 4));
    }
  }
};

template <class S>
struct UnpackBlock<S, BlockQ3_K> {
  static void run(const BlockQ3_K& block, BlockQuants<BlockQ3_K>& out) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 32; ++i) {
          const int low = (block.qs[32 * h + i] >> (2 * j)) & 3, high = (block.hmask[i] >> (4 * h + j)) & 1;
          out.q[128 * h + 32 * j + i] = static_cast<int8_t>((low | (high << 2)) - 4);
        }
      }
    }
    const float d = S::one_half(block.d);
    for (int k = 0; k < 16; ++k) {
      const int low = (block.scales[k % 8] >> (k / 8 * 4)) & 15;
      const int high = (block.scales[8 + k % 4] >> (k / 4 * 2)) & 3;
      out.scale[k] = d * static_cast<float>((low | (high << 4)) - 32);
    }
  }
};

/// Decodes the 6-bit scales and mins of Q4_K and Q5_K; kernels/quant/decode.cpp describes the positions of
/// their bits.
template <class S, class Block>
[[gnu::always_inline]] inline void unpack_k_factors(const Block& block, BlockQuants<Block>& out) {
  const float d = S::one_half(block.d), dmin = S::one_half(block.dmin);
  const uint8_t* s = block.scales;
  for (int k = 0; k < 8; ++k) {
    const int scale = k < 4 ? s[k] & 63 : (s[k + 4] & 15) | ((s[k - 4] >> 6) << 4);
    const int min = k < 4 ? s[k + 4] & 63 : (s[k + 4] >> 4) | ((s[k] >> 6) << 4);
    out.scale[k] = d * static_cast<float>(scale);
    out.min[k] = -(dmin * static_cast<float>(min));
  }
}

template <class S>
struct UnpackBlock<S, BlockQ4_K> {
  static void run(const BlockQ4_K& block, BlockQuants<BlockQ4_K>& out) {
    for (int k = 0; k < 4; ++k) nibbles_to_bytes<S>(block.qs + 32 * k, 32, out.q + 64 * k);
    unpack_k_factors<S>(block, out);
  }
};

template <class S>
struct UnpackBlock<S, BlockQ5_K> {
  static void run(const BlockQ5_K& block, BlockQuants<BlockQ5_K>& out) {
    for (int k = 0; k < 4; ++k) nibbles_to_bytes<S>(block.qs + 32 * k, 32, out.q + 64 * k);
    for (int k = 0; k < 8; ++k) {
      for (int i = 0; i < 32; ++i) {
        out.q[32 * k + i] = static_cast<int8_t>(out.q[32 * k + i] | (((block.qh[i] >> k) & 1) << 4));
      }
    }
    unpack_k_factors<S>(block, out);
  }
};

template <class S>
struct UnpackBlock<S, BlockQ6_K> {
  static void run(const BlockQ6_K& block, BlockQuants<BlockQ6_K>& out) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 4; ++j) {
        const uint8_t* lows = block.ql + 64 * h + 32 * (j % 2);
        for (int i = 0; i < 32; ++i) {
          const int low = (lows[i] >> (j / 2 * 4)) & 15, high = (block.qh[32 * h + i] >> (2 * j)) & 3;
          out.q[128 * h + 32 * j + i] = static_cast<int8_t>((low | (high << 4)) - 32);
        }
      }
    }
    const float d = S::one_half(block.d);
    for (int k = 0; k < 16; ++k) out.scale[k] = d * static_cast<float>(block.scales[k]);
  }
};

template <class S>
struct UnpackBlock<S, BlockIQ4_XS> {
  static void run(const BlockIQ4_XS& block, BlockQuants<BlockIQ4_XS>& out) {
    const float d = S::one_half(block.d);
    for (int k = 0; k < 8; ++k) {
      S::look_up(block.qs + 16 * k, kIq4Values, out.q + 32 * k);
      const int low = (block.scales_l[k / 2] >> (k % 2 * 4)) & 15;
      const int high = (block.scales_h >> (k * 2)) & 3;
      out.scale[k] = d * static_cast<float>((low | (high << 4)) - 32);
    }
  }
};

template <class S>
struct UnpackBlock<S, BlockMXFP4> {
  static void run(const BlockMXFP4& block, BlockQuants<BlockMXFP4>& out) {
    S::look_up(block.qs, kFloat4Values, out.q);
    // The scale may be subnormal, so it is computed as the product of two normal numbers; see power_of_two()
    // in matmul_unpack.h.
    const unsigned first = block.e / 2u, second = block.e - first;
    out.scale[0] =
        __builtin_bit_cast(float, (first + 63) << 23) * __builtin_bit_cast(float, (second + 63) << 23);
  }
};

template <class S, class Block>
[[gnu::always_inline]] inline void unpack_block(const std::byte* p, BlockQuants<Block>& out) {
  Block block;
  __builtin_memcpy(&block, p, sizeof block);
  UnpackBlock<S, Block>::run(block, out);
}

/// Returns the weights of one strip of an unpacked block.
template <class S, class Block>
[[gnu::always_inline]] inline typename S::Strip strip_of(const BlockQuants<Block>& quants, int strip) {
  const auto factors = [&](const float* all) {
    return Block::kGroup == kStripColumns ? S::halves_of(all[strip], all[strip])
                                          : S::halves_of(all[2 * strip], all[2 * strip + 1]);
  };
  const std::byte* bytes = reinterpret_cast<const std::byte*>(quants.q) + strip * kStripColumns;
  const typename S::Strip weights = S::mul(S::bytes(bytes), factors(quants.scale));
  if constexpr (Block::kHasMin) return S::add(weights, factors(quants.min));
  return weights;
}

/// Calls use(strip number, weights) for each strip of the block at p.
template <class S, class Block, class Use>
[[gnu::always_inline]] inline void for_each_strip(const std::byte* p, Use&& use) {
  BlockQuants<Block> quants;
  unpack_block<S, Block>(p, quants);
  for (int strip = 0; strip < Block::kElems / kStripColumns; ++strip) {
    use(strip, strip_of<S, Block>(quants, strip));
  }
}

}  // namespace hearth
