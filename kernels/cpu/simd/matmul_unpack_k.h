// Unpacks K-quant blocks (256 weights), one row per lane, into a panel. See matmul_unpack.h.
#pragma once

#include "kernels/cpu/simd/matmul_unpack.h"

namespace hearth {

/// Reads the 8 scales and 8 mins of Q4_K and Q5_K from the first 16 bytes of the block, which hold d, dmin
/// and three dwords of 6-bit values.
template <class S>
[[gnu::always_inline]] inline void unpack_k_scales(const typename S::Int* header, typename S::Float* scale,
                                                   typename S::Float* min) {
  using Int = typename S::Int;
  const Int low6 = S::bytes(0x3f), low4 = S::bytes(0x0f);
  const Int scales[2] = {S::bit_and(header[1], low6),
                         S::bit_or(S::bit_and(header[3], low4), move_bits<S, 6, 4>(header[1], 0x30))};
  const Int mins[2] = {S::bit_and(header[2], low6),
                       S::bit_or(move_bits<S, 4, 0>(header[3], 0x0f), move_bits<S, 6, 4>(header[2], 0x30))};
  const typename S::Float d = S::low_half(header[0]);
  const typename S::Float minus_dmin = S::negate(S::high_half(header[0]));
  unroll<8>([&]<int k>() __attribute__((always_inline)) {
    scale[k] = S::mul(d, byte_to_float<S, k % 4>(scales[k / 4]));
    min[k] = S::mul(minus_dmin, byte_to_float<S, k % 4>(mins[k / 4]));
  });
}

template <class S>
struct Unpack<S, BlockQ4_K> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    typename S::Int raw[8];
    S::load_rows(rows, 0, raw);
    unpack_k_scales<S>(raw, scale, min);
    for (int pair = 0; pair < 4; ++pair, quants += 16) {
      S::load_rows(rows, 16 + 32 * pair, raw);
      S::load_rows(rows, 32 + 32 * pair, raw + 4);
      split_nibbles<S, 8>(raw, quants);
    }
  }
};

/// Unpacks spans 2 * pair and 2 * pair + 1 of a block of Q5_K from their 32 bytes of nibbles and the block's
/// fifth bits, n vectors each.
template <class S, int pair, int n>
[[gnu::always_inline]] inline void five_bits(const typename S::Int* raw, const typename S::Int* fifth,
                                             typename S::Int* quants) {
  split_nibbles<S, n>(raw, quants);
  for (int i = 0; i < n; ++i) {
    quants[i] = S::bit_or(quants[i], move_bits<S, 2 * pair, 4>(fifth[i], 0x10));
    quants[n + i] = S::bit_or(quants[n + i], move_bits<S, 2 * pair + 1, 4>(fifth[i], 0x10));
  }
}

template <class S>
struct Unpack<S, BlockQ5_K> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    typename S::Int raw[8], fifth[8];
    S::load_rows(rows, 0, raw);
    unpack_k_scales<S>(raw, scale, min);
    S::load_rows(rows, 16, fifth);
    S::load_rows(rows, 32, fifth + 4);
    unroll<4>([&]<int pair>() __attribute__((always_inline)) {
      S::load_rows(rows, 48 + 32 * pair, raw);
      S::load_rows(rows, 64 + 32 * pair, raw + 4);
      five_bits<S, pair, 8>(raw, fifth, quants + 16 * pair);
    });
  }
};

/// Unpacks the 16 scales of Q6_K.
template <class S>
[[gnu::always_inline]] inline void unpack_q6_scales(const RowBlocks& rows, typename S::Float* scale) {
  typename S::Int scales[4];
  S::load_rows(rows, 192, scales);
  const typename S::Float d = S::high_half(S::load_dword(rows, 206));  // the block ends at byte 210, after d
  unroll<16>([&]<int k>() __attribute__((always_inline)) {
    scale[k] = S::mul(d, signed_byte_to_float<S, k % 4>(scales[k / 4]));
  });
}

/// Unpacks span j of half a block of Q6_K from n vectors with its low bits and n with its high bits.
template <class S, int j, int n>
[[gnu::always_inline]] inline void six_bits(const typename S::Int* low, const typename S::Int* high,
                                            typename S::Int* quants) {
  for (int i = 0; i < n; ++i) {
    const typename S::Int bottom = move_bits<S, j / 2 * 4, 0>(low[i], 0x0f);
    quants[i] = S::bit_or(bottom, move_bits<S, 2 * j, 4>(high[i], 0x30));
  }
}

template <class S>
struct Unpack<S, BlockQ6_K> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    typename S::Int low[16], high[8];
    for (int half = 0; half < 2; ++half, quants += 32) {
      for (int i = 0; i < 4; ++i) S::load_rows(rows, 64 * half + 16 * i, low + 4 * i);
      for (int i = 0; i < 2; ++i) S::load_rows(rows, 128 + 32 * half + 16 * i, high + 4 * i);
      unroll<4>([&]<int j>() __attribute__((always_inline)) {
        six_bits<S, j, 8>(low + j % 2 * 8, high, quants + 8 * j);
      });
    }
    unpack_q6_scales<S>(rows, scale);
  }
};

/// Unpacks span j of half a block of Q2_K or Q3_K: bits 2j and 2j + 1 of its 32 bytes.
template <class S, int j>
[[gnu::always_inline]] inline void two_bits(const typename S::Int* raw, typename S::Int* quants) {
  for (int i = 0; i < 8; ++i) quants[i] = move_bits<S, 2 * j, 0>(raw[i], 3);
}

/// Unpacks the 2-bit values of Q2_K and Q3_K: 32 bytes per half block.
template <class S>
[[gnu::always_inline]] inline void unpack_pairs(const RowBlocks& rows, int offset, typename S::Int* quants) {
  typename S::Int raw[8];
  for (int half = 0; half < 2; ++half, quants += 32) {
    S::load_rows(rows, offset + 32 * half, raw);
    S::load_rows(rows, offset + 16 + 32 * half, raw + 4);
    unroll<4>([&]<int j>() __attribute__((always_inline)) { two_bits<S, j>(raw, quants + 8 * j); });
  }
}

/// Unpacks the 16 scales and mins of Q2_K.
template <class S>
[[gnu::always_inline]] inline void unpack_q2_scales(const RowBlocks& rows, typename S::Float* scale,
                                                    typename S::Float* min) {
  using Int = typename S::Int;
  Int packed[4];
  S::load_rows(rows, 0, packed);
  const Int factors = S::load_dword(rows, 80);
  const typename S::Float d = S::low_half(factors);
  const typename S::Float minus_dmin = S::negate(S::high_half(factors));
  unroll<4>([&]<int j>() __attribute__((always_inline)) {
    const Int scales = move_bits<S, 0, 0>(packed[j], 0x0f);
    const Int mins = move_bits<S, 4, 0>(packed[j], 0x0f);
    unroll<4>([&]<int k>() __attribute__((always_inline)) {
      scale[4 * j + k] = S::mul(d, byte_to_float<S, k>(scales));
      min[4 * j + k] = S::mul(minus_dmin, byte_to_float<S, k>(mins));
    });
  });
}

template <class S>
struct Unpack<S, BlockQ2_K> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    unpack_pairs<S>(rows, 16, quants);
    unpack_q2_scales<S>(rows, scale, min);
  }
};

/// Adds the third bits of weights [32 * span, 32 * (span + 1)) of a Q3_K block: weight 32 * span + i has bit
/// `span` of the block's byte i.
template <class S, int span>
[[gnu::always_inline]] inline void add_third_bits(const typename S::Int* third, typename S::Int* quants) {
  for (int i = 0; i < 8; ++i) quants[i] = S::bit_or(quants[i], move_bits<S, span, 2>(third[i], 4));
}

/// Unpacks the 16 scales of Q3_K. A block ends with 12 bytes of scales and 2 bytes of d. The load of 16 bytes
/// ends with the block, so it begins two bytes before the scales, and the scales are not aligned to dwords.
template <class S>
[[gnu::always_inline]] inline void unpack_q3_scales(const RowBlocks& rows, typename S::Float* scale) {
  using Int = typename S::Int;
  Int tail[4];
  S::load_rows(rows, 94, tail);
  Int packed[3];
  for (int i = 0; i < 3; ++i) {
    packed[i] = S::bit_or(S::template shift_right<16>(tail[i]), S::template shift_left<16>(tail[i + 1]));
  }
  const typename S::Float d = S::high_half(tail[3]);
  unroll<4>([&]<int j>() __attribute__((always_inline)) {
    const Int low = move_bits<S, j / 2 * 4, 0>(packed[j % 2], 0x0f);
    const Int six = S::bit_or(low, move_bits<S, 2 * j, 4>(packed[2], 0x30));
    unroll<4>([&]<int k>() __attribute__((always_inline)) {
      scale[4 * j + k] = S::mul(d, S::sub_float(byte_to_float<S, k>(six), S::floats(32.0f)));
    });
  });
}

template <class S>
struct Unpack<S, BlockQ3_K> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    unpack_pairs<S>(rows, 32, quants);
    typename S::Int third[8];
    S::load_rows(rows, 0, third);
    S::load_rows(rows, 16, third + 4);
    unroll<8>([&]<int k>() __attribute__((always_inline)) { add_third_bits<S, k>(third, quants + 8 * k); });
    unpack_q3_scales<S>(rows, scale);
  }
};

}  // namespace hearth
