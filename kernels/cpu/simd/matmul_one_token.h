// Products of one token: blocks are multiplied as they are read, without a panel in memory.
//
// Decode reads every weight once. Writing its bytes to a panel and reading them back would take a fifth of
// the instructions, and nibbles would have to be moved to their position in the panel. The products, the sums
// and their order are the same as with a panel, and so are the bits. On Zen 5, Q4_0 weights are read at 40
// GB/s from the cache and at 24 GB/s from memory; with a panel, the speeds are 26 and 20 GB/s.
// kernels/DECISIONS.md lists the speeds of other types.
//
// matmul_by_rows.h multiplies types with more bytes per column.
#pragma once

#include "kernels/cpu/simd/matmul_by_rows.h"
#include "kernels/cpu/simd/matmul_unpack_k.h"
#include "kernels/cpu/simd/matmul_unpack_runs.h"

namespace hearth {

/// Multiplies 256 columns by one token. kFused: whether a specialization implements this for the type.
template <class S, class Block>
struct OneToken {
  static constexpr bool kFused = false;
  static typename S::Float run(RowBlocks, const ActivationPlanes&, typename S::Float total,
                               const Ahead<S, Block>&) {
    return total;
  }
};

template <class S, class Block>
requires kByRows<Block>
struct OneToken<S, Block> : ByRows<S, Block> {
  static constexpr bool kFused = true;
};

/// Returns 16 times the products of a block of 32 nibbles. raw[k] holds columns 4k to 4k + 3 in its low
/// nibbles, and columns 16 + 4k to 19 + 4k in its high nibbles.
template <class S>
[[gnu::always_inline]] inline typename S::Int dot_nibbles_16(const typename S::Int* raw,
                                                             const std::byte* span) {
  const typename S::Int low = S::template dot_low_nibbles<4>(raw, span, 0);
  return S::add_int(S::template shift_left<4>(low),
                    S::template dot_high_nibbles_16<4>(raw, span, kActivationHalf));
}

/// Returns the product of a sum and its scale, given 16 times the sum. The scale is divided by 16 instead of
/// the sum. This changes no rounding, because 16 is a power of two.
template <class S>
[[gnu::always_inline]] inline typename S::Float scaled_16(typename S::Int sum_16, typename S::Float scale) {
  return S::mul(S::to_float(sum_16), S::mul(scale, S::floats(1.0f / 16)));
}

/// Adds the span of a block of Q4_0, Q5_0 or IQ4_NL to the total: `packed` is the block without its scale.
template <class S>
[[gnu::always_inline]] inline typename S::Float add_block(BlockQ4_0, typename S::Float total,
                                                          const typename S::Int* packed,
                                                          typename S::Float scale, const ActivationPlanes& x,
                                                          int span) {
  const typename S::Int offset = S::template shift_left<7>(S::broadcast_dword(x.int_sum + span * 4));
  const typename S::Int sum = S::sub(dot_nibbles_16<S>(packed, x.quants + span * kSpanBytesOf<S>), offset);
  return S::add(total, S::mul(scaled_16<S>(sum, scale), S::broadcast_float(x.scale + span * 4)));
}
template <class S>
[[gnu::always_inline]] inline typename S::Float add_block(BlockQ5_0, typename S::Float total,
                                                          const typename S::Int* packed,
                                                          typename S::Float scale, const ActivationPlanes& x,
                                                          int span) {
  typename S::Int quants[8];
  split_nibbles<S, 4>(packed + 1, quants);
  add_fifth_bits<S>(packed[0], quants);
  return add_panel_span<S, BlockQ5_0>(total, quants, &scale, nullptr, x, span);
}
template <class S>
[[gnu::always_inline]] inline typename S::Float add_block(BlockIQ4_NL, typename S::Float total,
                                                          const typename S::Int* packed,
                                                          typename S::Float scale, const ActivationPlanes& x,
                                                          int span) {
  typename S::Int quants[8];
  look_up_iq4<S>(packed, quants);
  return add_panel_span<S, BlockIQ4_NL>(total, quants, &scale, nullptr, x, span);
}

/// For blocks with a two-byte scale and kPacked dwords. Two neighboring blocks take an odd number of dwords.
/// The dwords of the second block are aligned. The dwords of the first block are two bytes off, so each of
/// them is combined from two aligned dwords.
template <class S, class Block>
requires(sizeof(Block) % 4 == 2 && Block::kElems == kActivationSpan &&
         !kByRows<Block>) struct OneToken<S, Block> {
  static constexpr bool kFused = true;
  static constexpr int kPacked = sizeof(Block) / 4, kPair = 2 * kPacked + 1;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, Block>& ahead) {
    Int raw[4 * kPair];
    unroll<4>([&]<int pair>() __attribute__((always_inline)) {
      // load_rows() reads four dwords at a time.
      constexpr int kFrom = (kPair * pair + 3) / 4, kTo = (kPair * (pair + 1) + 3) / 4;
      for (int i = kFrom; i < kTo; ++i) S::load_rows(rows, 16 * i, raw + 4 * i);
      const Int* v = raw + kPair * pair;
      Int first[kPacked];
      dwords_two_bytes_on<S, kPacked>(v, first);
      ahead.ask(2 * pair);
      total = add_block<S>(Block(), total, first, S::low_half(v[0]), x, 2 * pair);
      ahead.ask(2 * pair + 1);
      total = add_block<S>(Block(), total, v + kPacked + 1, S::high_half(v[kPacked]), x, 2 * pair + 1);
    });
    return total;
  }
};

/// Adds the min to a span's term, and the span to the total.
template <class S>
[[gnu::always_inline]] inline typename S::Float add_term(typename S::Float total, typename S::Float term,
                                                         typename S::Float min, const ActivationPlanes& x,
                                                         int span) {
  const typename S::Float dot = S::add(term, S::mul(min, S::broadcast_float(x.sum + span * 4)));
  return S::add(total, S::mul(dot, S::broadcast_float(x.scale + span * 4)));
}

/// Four blocks of 20 bytes are 20 dwords: dword 5b holds d and m of block b.
template <class S>
struct OneToken<S, BlockQ4_1> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ4_1>& ahead) {
    for (int half = 0; half < kPanelSpans; half += 4, rows.offset += 4 * sizeof(BlockQ4_1)) {
      Int raw[20];
      unroll<4>([&]<int b>() __attribute__((always_inline)) {
        constexpr int kFrom = (5 * b + 3) / 4, kTo = (5 * b + 8) / 4;
        for (int i = kFrom; i < kTo; ++i) S::load_rows(rows, 16 * i, raw + 4 * i);
        const Int* v = raw + 5 * b;
        const int span = half + b;
        ahead.ask(span);
        const Int sum = dot_nibbles_16<S>(v + 1, x.quants + span * kSpanBytesOf<S>);
        total = add_term<S>(total, scaled_16<S>(sum, S::low_half(v[0])), S::high_half(v[0]), x, span);
      });
    }
    return total;
  }
};

/// Two blocks of 24 bytes are 12 dwords. Dword 6b holds d and m of block b, and dword 6b + 1 holds the fifth
/// bits of block b.
template <class S>
struct OneToken<S, BlockQ5_1> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ5_1>& ahead) {
    unroll<4>([&]<int pair>() __attribute__((always_inline)) {
      Int raw[12];
      for (int i = 0; i < 3; ++i) S::load_rows(rows, 48 * pair + 16 * i, raw + 4 * i);
      unroll<2>([&]<int b>() __attribute__((always_inline)) {
        constexpr int kSpan = 2 * pair + b;
        const Int* v = raw + 6 * b;
        const Float scale = S::low_half(v[0]), min = S::high_half(v[0]);
        Int quants[8];
        split_nibbles<S, 4>(v + 2, quants);
        add_fifth_bits<S>(v[1], quants);
        ahead.ask(kSpan);
        total = add_panel_span<S, BlockQ5_1>(total, quants, &scale, &min, x, kSpan);
      });
    });
    return total;
  }
};

/// 32 bytes hold one span in their low nibbles, and the next span in their high nibbles.
template <class S>
struct OneToken<S, BlockQ4_K> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ4_K>& ahead) {
    Int header[4];
    Float scale[8], min[8];
    S::load_rows(rows, 0, header);
    unpack_k_scales<S>(header, scale, min);
    unroll<4>([&]<int pair>() __attribute__((always_inline)) {
      constexpr int kSpan = 2 * pair;
      Int raw[8];
      S::load_rows(rows, 16 + 32 * pair, raw);
      ahead.ask(kSpan);
      S::load_rows(rows, 32 + 32 * pair, raw + 4);
      ahead.ask(kSpan + 1);
      const std::byte* quants = x.quants + kSpan * kSpanBytesOf<S>;
      const Int low = S::template dot_low_nibbles<8>(raw, quants, 0);
      const Int high_16 = S::template dot_high_nibbles_16<8>(raw, quants + kSpanBytesOf<S>, 0);
      total = add_term<S>(total, S::mul(S::to_float(low), scale[kSpan]), min[kSpan], x, kSpan);
      total = add_term<S>(total, scaled_16<S>(high_16, scale[kSpan + 1]), min[kSpan + 1], x, kSpan + 1);
    });
    return total;
  }
};

template <class S>
struct OneToken<S, BlockQ2_K> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ2_K>& ahead) {
    Float scale[16], min[16];
    unpack_q2_scales<S>(rows, scale, min);
    unroll<2>([&]<int half>() __attribute__((always_inline)) {
      Int raw[8];
      for (int i = 0; i < 2; ++i) S::load_rows(rows, 16 + 32 * half + 16 * i, raw + 4 * i);
      unroll<4>([&]<int j>() __attribute__((always_inline)) {
        constexpr int kSpan = 4 * half + j;
        Int quants[8];
        two_bits<S, j>(raw, quants);
        ahead.ask(kSpan);
        total = add_panel_span<S, BlockQ2_K>(total, quants, scale + 2 * kSpan, min + 2 * kSpan, x, kSpan);
      });
    });
    return total;
  }
};

template <class S>
struct OneToken<S, BlockQ3_K> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ3_K>& ahead) {
    Float scale[16];
    unpack_q3_scales<S>(rows, scale);
    Int third[8];
    for (int i = 0; i < 2; ++i) S::load_rows(rows, 16 * i, third + 4 * i);
    unroll<2>([&]<int half>() __attribute__((always_inline)) {
      Int raw[8];
      for (int i = 0; i < 2; ++i) S::load_rows(rows, 32 + 32 * half + 16 * i, raw + 4 * i);
      unroll<4>([&]<int j>() __attribute__((always_inline)) {
        constexpr int kSpan = 4 * half + j;
        Int quants[8];
        two_bits<S, j>(raw, quants);
        add_third_bits<S, kSpan>(third, quants);
        ahead.ask(kSpan);
        total = add_panel_span<S, BlockQ3_K>(total, quants, scale + 2 * kSpan, nullptr, x, kSpan);
      });
    });
    return total;
  }
};

template <class S>
struct OneToken<S, BlockIQ4_XS> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total,
                   const Ahead<S, BlockIQ4_XS>& ahead) {
    Int header[4];
    S::load_rows(rows, 0, header);
    const Float d = S::low_half(header[0]);
    unroll<8>([&]<int k>() __attribute__((always_inline)) {
      Int quants[8];
      unpack_iq4<S>(rows, 8 + 16 * k, quants);
      const Float scale = iq4_xs_scale<S, k>(header, d);
      ahead.ask(k);
      total = add_panel_span<S, BlockIQ4_XS>(total, quants, &scale, nullptr, x, k);
    });
    return total;
  }
};

template <class S>
struct OneToken<S, BlockMXFP4> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total,
                   const Ahead<S, BlockMXFP4>& ahead) {
    for_each_mxfp4<S>(
        rows, [&]<int b>(const Int* packed, Float scale) __attribute__((always_inline)) {
          Int quants[8];
          look_up_float4<S>(packed, quants);
          ahead.ask(b);
          total = add_panel_span<S, BlockMXFP4>(total, quants, &scale, nullptr, x, b);
        });
    return total;
  }
};

}  // namespace hearth
