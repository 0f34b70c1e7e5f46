// Unpacks runs of neighboring blocks together, one row per lane, into a panel. See UnpackRun in
// matmul_unpack.h.
#pragma once

#include "kernels/cpu/simd/matmul_unpack.h"

namespace hearth {

/// Loads n * 16 bytes of every row: out[j] holds bytes 4j..4j+3 of all rows.
template <class S, int n>
[[gnu::always_inline]] inline void load_run(const RowBlocks& rows, typename S::Int* out) {
  for (int i = 0; i < n; ++i) S::load_rows(rows, 16 * i, out + 4 * i);
}

/// Four blocks of 20 bytes: dword 5b holds d and m of block b; four dwords of quants follow.
template <class S>
struct UnpackRun<S, BlockQ4_1> {
  static constexpr int kBlocks = 4;
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    typename S::Int raw[20];
    load_run<S, 5>(rows, raw);
    unroll<4>([&]<int b>() __attribute__((always_inline)) {
      split_nibbles<S, 4>(raw + 5 * b + 1, quants + 8 * b);
      scale[b] = S::low_half(raw[5 * b]);
      min[b] = S::high_half(raw[5 * b]);
    });
  }
};

/// Two blocks of 24 bytes: dword 6b holds d and m of block b; one dword of fifth bits and four dwords of
/// quants follow.
template <class S>
struct UnpackRun<S, BlockQ5_1> {
  static constexpr int kBlocks = 2;
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    typename S::Int raw[12];
    load_run<S, 3>(rows, raw);
    unroll<2>([&]<int b>() __attribute__((always_inline)) {
      split_nibbles<S, 4>(raw + 6 * b + 2, quants + 8 * b);
      add_fifth_bits<S>(raw[6 * b + 1], quants + 8 * b);
      scale[b] = S::low_half(raw[6 * b]);
      min[b] = S::high_half(raw[6 * b]);
    });
  }
};

/// Returns the n dwords that begin two bytes after the start of v[0].
template <class S, int n>
[[gnu::always_inline]] inline void dwords_two_bytes_on(const typename S::Int* v, typename S::Int* out) {
  for (int i = 0; i < n; ++i) {
    out[i] = S::bit_or(S::template shift_right<16>(v[i]), S::template shift_left<16>(v[i + 1]));
  }
}

/// Eight blocks, each with d and 16 bytes of nibbles, which `finish` turns into weights. In each pair of
/// blocks (9 dwords), the quants of the second block are aligned dwords. The quants of the first block are
/// two bytes off, so each dword is combined from two aligned dwords.
template <class S, class Finish>
[[gnu::always_inline]] inline void unpack_nibble_run(const RowBlocks& rows, typename S::Int* quants,
                                                     typename S::Float* scale, Finish finish) {
  typename S::Int raw[36];
  load_run<S, 9>(rows, raw);
  unroll<4>([&]<int pair>() __attribute__((always_inline)) {
    const typename S::Int* v = raw + 9 * pair;
    typename S::Int first[4];
    dwords_two_bytes_on<S, 4>(v, first);
    split_nibbles<S, 4>(first, quants + 16 * pair);
    split_nibbles<S, 4>(v + 5, quants + 16 * pair + 8);
    for (int i = 0; i < 16; ++i) quants[16 * pair + i] = finish(quants[16 * pair + i]);
    scale[2 * pair] = S::low_half(v[0]);
    scale[2 * pair + 1] = S::high_half(v[4]);
  });
}

template <class S>
struct UnpackRun<S, BlockQ4_0> {
  static constexpr int kBlocks = 8;
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    unpack_nibble_run<S>(rows, quants, scale, [](typename S::Int v) { return v; });
  }
};

template <class S>
struct UnpackRun<S, BlockIQ4_NL> {
  static constexpr int kBlocks = 8;
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    const typename S::Int table = iq4_table<S>();
    unpack_nibble_run<S>(rows, quants, scale, [table](typename S::Int v) { return S::look_up(table, v); });
  }
};

/// Eight blocks of 17 bytes are 34 dwords. The indices of block b begin at byte (b + 1) % 4 of a dword, and
/// its exponent is the byte before them. Calls use.template operator()<b>(four dwords of indices, scale) for
/// each block.
template <class S, class Use>
[[gnu::always_inline]] inline void for_each_mxfp4(const RowBlocks& rows, Use&& use) {
  using Int = typename S::Int;
  Int raw[34];
  unroll<8>([&]<int b>() __attribute__((always_inline)) {
    // load_rows() reads four dwords at a time, so the last two dwords are read together with the two before
    // them.
    constexpr int kByte = b * sizeof(BlockMXFP4), kFrom = (kByte + 15) / 16;
    constexpr int kTo = b == 7 ? 8 : (kByte + 32) / 16;
    for (int i = kFrom; i < kTo; ++i) S::load_rows(rows, 16 * i, raw + 4 * i);
    if constexpr (b == 7) {
      Int last[4];
      S::load_rows(rows, 120, last);
      raw[32] = last[2], raw[33] = last[3];
    }
    constexpr int kShift = (kByte + 1) % 4 * 8;
    const Int* v = raw + (kByte + 1) / 4;
    Int packed[4];
    for (int i = 0; i < 4; ++i) {
      if constexpr (kShift == 0) {
        packed[i] = v[i];
      } else {
        packed[i] =
            S::bit_or(S::template shift_right<kShift>(v[i]), S::template shift_left<32 - kShift>(v[i + 1]));
      }
    }
    const Int e = S::bit_and(S::template shift_right<kByte % 4 * 8>(raw[kByte / 4]), S::dwords(255));
    use.template operator()<b>(packed, power_of_two<S>(e));
  });
}

template <class S>
struct UnpackRun<S, BlockMXFP4> {
  static constexpr int kBlocks = 8;
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    for_each_mxfp4<S>(
        rows, [&]<int b>(const typename S::Int* packed, typename S::Float factor)
                  __attribute__((always_inline)) {
                    look_up_float4<S>(packed, quants + 8 * b);
                    scale[b] = factor;
                  });
  }
};

}  // namespace hearth
