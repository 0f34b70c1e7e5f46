// Products of one token for types with many bytes per column: rows are multiplied in their memory layout, and
// only the sums are moved into lanes.
//
// The rows of the lanes are divided into four quarters. Vector i holds 16 bytes of each row of quarter i. Dot
// products leave four partial sums per row. One small transposition per span adds up the partial sums and
// puts each row into its lane. The transposition takes 9 instructions per span, whereas transposing the
// weights would take 8 instructions for every 16 columns. Products and float sums have the same order as with
// a panel (matmul_panel.h), so the bits are the same. One thread of Zen 4 reads Q8_0 from the cache at 33
// GB/s with AVX-512 and at 30 GB/s with AVX2 (with a panel, 28 and 26). With 8-bit activations, it reads 42
// and 26 GB/s (with a panel, 32 and 24). Types of 18 to 24 bytes per 32 columns would become slower, because
// the scales of their rows would be loaded separately.
#pragma once

#include "kernels/cpu/simd/matmul_sums.h"
#include "kernels/cpu/simd/matmul_unpack_k.h"

namespace hearth {

/// The reader of a type's spans. kSpans: the number of spans that are read at once.
///   bytes<S, k>(rows, i, out)  columns 0-15 and 16-31 of span k, for the rows of quarter i (S::load_16()),
///                              plus Block::kOffset; if kSpans is 2, then also the columns of span k + 1
///   Factors<S>                 scales and mins of one block if blocks are spans, else of the whole strip
template <class Block>
struct Spans;

template <class Block>
inline constexpr bool kByRows = requires {
  Spans<Block>::kSpans;
};

/// Multiplies 256 columns with one token.
template <class S, class Block>
struct ByRows {
  using Int = typename S::Int;
  using Float = typename S::Float;
  static constexpr int kSpans = Spans<Block>::kSpans, kParts = kActivationSpan / Block::kGroup;
  static constexpr bool kBlockIsSpan = Block::kElems == kActivationSpan;

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, Block>& ahead) {
    typename Spans<Block>::template Factors<S> factors;
    if constexpr (!kBlockIsSpan) factors.read(rows);
    unroll<kPanelSpans / kSpans>([&]<int step>() __attribute__((always_inline)) {
      constexpr int kFirst = step * kSpans;
      if constexpr (kBlockIsSpan) factors.read({rows.row, rows.offset + kFirst * sizeof(Block)});
      Int partial[kSpans * kParts][4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        Int bytes[2 * kSpans];
        Spans<Block>::template bytes<S, kFirst>(rows, i, bytes);
        for (int part = 0; part < kSpans * kParts; ++part) partial[part][i] = dot<kFirst>(bytes, part, x);
      }
      for (int s = 0; s < kSpans; ++s) {
        ahead.ask(kFirst + s);
        Int sums[kParts];
        for (int part = 0; part < kParts; ++part) sums[part] = S::add_up(partial[s * kParts + part]);
        const int group = kBlockIsSpan ? 0 : (kFirst + s) * kParts;
        total = add_sums<S, Block>(total, sums, factors.scale + group,
                                   factors.min + (Block::kHasMin ? group : 0), x, kFirst + s);
      }
    });
    return total;
  }

 private:
  /// Returns the partial sums of weight group `part`, counted from the first group of span kFirst.
  template <int kFirst>
  [[gnu::always_inline]] static Int dot(const Int* bytes, int part, const ActivationPlanes& x) {
    constexpr int kVectors = 2 / kParts;
    const std::byte* span = x.quants + (kFirst + part / kParts) * kSpanBytesOf<S>;
    return S::template dot_rows<kVectors, Block::kLargest>(bytes + part * kVectors, span,
                                                           part % kParts * Block::kGroup);
  }
};

template <>
struct Spans<BlockQ8_0> {
  static constexpr int kSpans = 1;
  template <class S>
  struct Factors {
    typename S::Float scale[1], min[1];
    [[gnu::always_inline]] void read(const RowBlocks& rows) { scale[0] = S::low_half(S::first_dwords(rows)); }
  };
  template <class S, int k>
  [[gnu::always_inline]] static void bytes(const RowBlocks& rows, int i, typename S::Int* out) {
    for (int half = 0; half < 2; ++half) {
      const typename S::Int raw = S::load_16(rows, i, k * sizeof(BlockQ8_0) + 2 + 16 * half);
      out[half] = S::bit_xor(raw, S::bytes(0x80));  // adds 128
    }
  }
};

template <>
struct Spans<BlockQ5_K> {
  static constexpr int kSpans = 2;
  template <class S>
  struct Factors {
    typename S::Float scale[8], min[8];
    [[gnu::always_inline]] void read(const RowBlocks& rows) {
      typename S::Int header[4];
      S::load_rows(rows, 0, header);
      unpack_k_scales<S>(header, scale, min);
    }
  };
  template <class S, int k>
  [[gnu::always_inline]] static void bytes(const RowBlocks& rows, int i, typename S::Int* out) {
    const typename S::Int raw[2] = {S::load_16(rows, i, 48 + 16 * k), S::load_16(rows, i, 64 + 16 * k)};
    const typename S::Int fifth[2] = {S::load_16(rows, i, 16), S::load_16(rows, i, 32)};
    five_bits<S, k / 2, 2>(raw, fifth, out);
  }
};

template <>
struct Spans<BlockQ6_K> {
  static constexpr int kSpans = 1;
  template <class S>
  struct Factors {
    typename S::Float scale[16], min[1];
    [[gnu::always_inline]] void read(const RowBlocks& rows) { unpack_q6_scales<S>(rows, scale); }
  };
  template <class S, int k>
  [[gnu::always_inline]] static void bytes(const RowBlocks& rows, int i, typename S::Int* out) {
    constexpr int kLow = k / 4 * 64 + k % 2 * 32, kHigh = 128 + k / 4 * 32;
    const typename S::Int low[2] = {S::load_16(rows, i, kLow), S::load_16(rows, i, kLow + 16)};
    const typename S::Int high[2] = {S::load_16(rows, i, kHigh), S::load_16(rows, i, kHigh + 16)};
    six_bits<S, k % 4, 2>(low, high, out);
  }
};

}  // namespace hearth
