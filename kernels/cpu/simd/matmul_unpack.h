// Unpacks blocks of each quantized type, one row per lane, into a panel. Layouts: kernels/quant/formats.h.
//
// Simd::load_rows(rows, offset, out) is the core: it reads 16 bytes of every row and transposes them, so that
// out[j] holds bytes 4j..4j+3 of all rows. All code after it works on all rows at once. No read goes beyond a
// row's block.
#pragma once

#include "kernels/cpu/simd/matmul_panel.h"
#include "kernels/quant/decode.h"

namespace hearth {

/// Unpack<Simd, Block>::run fills `quants` (kElems / 4 vectors), `scale` and `min` (kElems / kGroup each)
/// from one block per row.
template <class Simd, class Block>
struct Unpack;

/// Unpacks kBlocks neighboring blocks at once. kBlocks is 0 for types for which this is not faster than
/// unpacking blocks one by one. Blocks of 18, 20 or 24 bytes are not a multiple of 16 bytes long, but a run
/// of blocks is. Reading the run as one array of dwords takes a third fewer loads, and loads limit the speed
/// of unpacking.
template <class Simd, class Block>
struct UnpackRun {
  static constexpr int kBlocks = 0;
};

/// Writes low nibbles of raw[0..n) to quants[0..n) and high nibbles to quants[n..2n).
template <class S, int n>
[[gnu::always_inline]] inline void split_nibbles(const typename S::Int* raw, typename S::Int* quants) {
  const typename S::Int low = S::bytes(0x0f);
  for (int i = 0; i < n; ++i) {
    quants[i] = S::bit_and(raw[i], low);
    quants[n + i] = S::bit_and(S::template shift_right<4>(raw[i]), low);
  }
}

/// Moves the bits of every byte from position `from` to position `to`. `mask` also removes the bits that come
/// from neighboring bytes.
template <class S, int from, int to>
[[gnu::always_inline]] inline typename S::Int move_bits(typename S::Int v, int mask) {
  if constexpr (from > to) return S::bit_and(S::template shift_right<from - to>(v), S::bytes(mask));
  if constexpr (from < to) return S::bit_and(S::template shift_left<to - from>(v), S::bytes(mask));
  return S::bit_and(v, S::bytes(mask));
}

/// Returns byte k of every lane as a float. The first function reads unsigned bytes, the second signed bytes.
template <class S, int k>
[[gnu::always_inline]] inline typename S::Float byte_to_float(typename S::Int v) {
  return S::to_float(S::bit_and(S::template shift_right<8 * k>(v), S::dwords(0xff)));
}
template <class S, int k>
[[gnu::always_inline]] inline typename S::Float signed_byte_to_float(typename S::Int v) {
  return S::to_float(S::template shift_right_signed<24>(S::template shift_left<24 - 8 * k>(v)));
}

/// Calls f.template operator()<0>() .. <n - 1>(). Mark f always_inline, or g++ may compile one of the calls
/// as a function and pass it vectors in memory.
template <int n, class F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  if constexpr (n > 0) {
    unroll<n - 1>(f);
    f.template operator()<n - 1>();
  }
}

template <class S>
struct Unpack<S, BlockQ4_0> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    typename S::Int raw[4];
    S::load_rows(rows, 2, raw);
    split_nibbles<S, 4>(raw, quants);
    scale[0] = S::low_half(S::load_dword(rows, 0));
  }
};

template <class S>
struct Unpack<S, BlockQ4_1> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    typename S::Int raw[4];
    S::load_rows(rows, 4, raw);
    split_nibbles<S, 4>(raw, quants);
    const typename S::Int factors = S::load_dword(rows, 0);
    scale[0] = S::low_half(factors);
    min[0] = S::high_half(factors);
  }
};

/// Adds a block's fifth bits, one dword per row, to its nibbles.
template <class S>
[[gnu::always_inline]] inline void add_fifth_bits(typename S::Int bits, typename S::Int* quants) {
  for (int i = 0; i < 8; ++i) quants[i] = S::bit_or(quants[i], S::spread_bits(bits, i, 0x10));
}

template <class S>
struct Unpack<S, BlockQ5_0> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    typename S::Int raw[4];
    S::load_rows(rows, 6, raw);
    split_nibbles<S, 4>(raw, quants);
    add_fifth_bits<S>(S::load_dword(rows, 2), quants);
    scale[0] = S::low_half(S::load_dword(rows, 0));
  }
};

template <class S>
struct Unpack<S, BlockQ5_1> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float* min) {
    typename S::Int raw[4];
    S::load_rows(rows, 8, raw);
    split_nibbles<S, 4>(raw, quants);
    add_fifth_bits<S>(S::load_dword(rows, 4), quants);
    const typename S::Int factors = S::load_dword(rows, 0);
    scale[0] = S::low_half(factors);
    min[0] = S::high_half(factors);
  }
};

template <class S>
struct Unpack<S, BlockQ8_0> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    S::load_rows(rows, 2, quants);
    S::load_rows(rows, 18, quants + 4);
    for (int i = 0; i < 8; ++i) quants[i] = S::bit_xor(quants[i], S::bytes(0x80));  // adds 128
    scale[0] = S::low_half(S::load_dword(rows, 0));
  }
};

/// The table of IQ4 values, plus the offset of weights in panels.
template <class S>
[[gnu::always_inline]] inline typename S::Int iq4_table() {
  return S::bit_xor(S::table(kIq4Values), S::bytes(BlockIQ4_NL::kOffset));
}

/// Looks up the weights of 32 indices. raw holds 16 bytes of nibbles per row.
template <class S>
[[gnu::always_inline]] inline void look_up_iq4(const typename S::Int* raw, typename S::Int* quants) {
  const typename S::Int table = iq4_table<S>();
  split_nibbles<S, 4>(raw, quants);
  for (int i = 0; i < 8; ++i) quants[i] = S::look_up(table, quants[i]);
}
template <class S>
[[gnu::always_inline]] inline void unpack_iq4(const RowBlocks& rows, int offset, typename S::Int* quants) {
  typename S::Int raw[4];
  S::load_rows(rows, offset, raw);
  look_up_iq4<S>(raw, quants);
}

template <class S>
struct Unpack<S, BlockIQ4_NL> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    unpack_iq4<S>(rows, 2, quants);
    scale[0] = S::low_half(S::load_dword(rows, 0));
  }
};

/// Returns the scale of group k: d * (s - 32), where s is a number of six bits. `header` is the block's first
/// 16 bytes.
template <class S, int k>
[[gnu::always_inline]] inline typename S::Float iq4_xs_scale(const typename S::Int* header,
                                                             typename S::Float d) {
  const typename S::Int low = S::bit_and(S::template shift_right<4 * k>(header[1]), S::dwords(15));
  const typename S::Int high = S::bit_and(S::template shift_right<16 + 2 * k>(header[0]), S::dwords(3));
  const typename S::Int six = S::bit_or(low, S::template shift_left<4>(high));
  return S::mul(d, S::to_float(S::sub(six, S::dwords(32))));
}

template <class S>
struct Unpack<S, BlockIQ4_XS> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    typename S::Int header[4];  // d | scales_h, scales_l, and the first 8 quants
    S::load_rows(rows, 0, header);
    const typename S::Float d = S::low_half(header[0]);
    unroll<8>([&]<int k>() __attribute__((always_inline)) {
      unpack_iq4<S>(rows, 8 + 16 * k, quants + 8 * k);
      scale[k] = iq4_xs_scale<S, k>(header, d);
    });
  }
};

/// The values of indices into kFloat4Values, plus the offset of weights in panels.
inline constexpr int8_t kFloat4Stored[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
static_assert([] {
  for (int i = 0; i < 16; ++i) {
    if (kFloat4Stored[i] != kFloat4Values[i] + BlockMXFP4::kOffset) return false;
  }
  return true;
}());

/// Looks up the weights of 32 indices. packed holds 16 bytes of nibbles per row.
template <class S>
[[gnu::always_inline]] inline void look_up_float4(const typename S::Int* packed, typename S::Int* quants) {
  const typename S::Int table = S::table(kFloat4Stored);
  split_nibbles<S, 4>(packed, quants);
  for (int i = 0; i < 8; ++i) quants[i] = S::look_up(table, quants[i]);
}

/// Returns 2^(e - 128) for e from 0 to 255, as the product of two powers with about half the exponent,
/// because the smallest results are not normal floats.
template <class S>
[[gnu::always_inline]] inline typename S::Float power_of_two(typename S::Int e) {
  const typename S::Int half = S::template shift_right<1>(e), bias = S::dwords(127 - 64);
  const typename S::Int first = S::template shift_left<23>(S::add_int(half, bias));
  const typename S::Int second = S::template shift_left<23>(S::add_int(S::sub(e, half), bias));
  return S::mul(S::as_float(first), S::as_float(second));
}

template <class S>
struct Unpack<S, BlockMXFP4> {
  static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                  typename S::Float*) {
    typename S::Int packed[4];
    S::load_rows(rows, 1, packed);
    look_up_float4<S>(packed, quants);
    scale[0] = power_of_two<S>(S::bit_and(S::load_dword(rows, 0), S::dwords(255)));
  }
};

/// For types without a loop of their own, plain code decodes a block of each row, and the results are
/// transposed. This function is not inlined, because all products of a type share it.
template <class S, class Block>
requires kDecodedFirst<Block>
struct Unpack<S, Block> {
  [[gnu::noinline]] static void run(const RowBlocks& rows, typename S::Int* quants, typename S::Float* scale,
                                    typename S::Float*) {
    static_assert(!Block::kHasMin && Block::kLargest == 2 * Block::kOffset - 1);
    Decoded<Block> blocks[S::kLanes];
    const std::byte* block[S::kLanes];
    for (int r = 0; r < S::kLanes; ++r) {
      decode_block<Block>(rows.row[r] + rows.offset, blocks[r]);
      block[r] = reinterpret_cast<const std::byte*>(blocks + r);
    }
    static_assert(offsetof(Decoded<Block>, q) == 0 && offsetof(Decoded<Block>, scale) == Block::kElems);
    for (int i = 0; i < Block::kElems / 4; i += 4) S::load_rows({block, 0}, 4 * i, quants + i);
    // Add the offset to every byte. Of the bits in `kept`, this changes only the highest bit.
    const typename S::Int offset = S::bytes(Block::kOffset), kept = S::bytes(Block::kLargest);
    for (int i = 0; i < Block::kElems / 4; ++i) quants[i] = S::bit_and(S::bit_xor(quants[i], offset), kept);
    for (int g = 0; g < Decoded<Block>::kGroups; g += 4) {
      typename S::Int scales[4];
      S::load_rows({block, 0}, Block::kElems + 4 * g, scales);
      for (int i = 0; i < 4; ++i) scale[g + i] = S::as_float(scales[i]);
    }
  }
};

}  // namespace hearth
