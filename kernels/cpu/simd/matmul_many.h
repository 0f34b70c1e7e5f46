// Quantized weights times the quantized activations of many tokens, for any vector ISA.
//
// Arithmetic and not memory limits the speed, so this design keeps the multipliers busy. Two panels of rows
// share every broadcast activation. A tile of two panels and S::kTokenTile tokens keeps its sums in
// registers. A pair of panels is unpacked into the L1 cache once for up to kPassTokens tokens. The
// activations of these tokens for the pair's 256 columns stay in the L2 cache while all rows of a pass use
// them. From one block of 256 columns to the next, a small array holds the float sums of all tokens; storing
// and loading these sums changes no bit. matmul_kernels.h gives the order of arithmetic.
#pragma once

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_lanes.h"
#include "kernels/cpu/simd/matmul_panel.h"
#include "kernels/cpu/simd/matmul_unpack_panel.h"

namespace hearth {

/// A pass covers at most kPassTokens tokens and kPassRows rows. A pair of panels is unpacked once for these
/// tokens. All rows use the tokens' activations of 256 columns (736 bytes per token) before the next 256
/// columns follow. The sums take kPassRows * kPassTokens floats.
inline constexpr int kPassTokens = 128;
inline constexpr int kPassRows = 64;

/// Two panels, in the form that S::dot_pair() multiplies. For types whose largest weight is `largest`, four
/// columns take S::kVectorsPerFour<largest> vectors (1 or 2). If S::kSubtractsOffset, the vectors hold the
/// true weights, otherwise the true weights plus Block::kOffset.
template <class S>
struct alignas(64) PanelPair {
  typename S::Int quants[2][kPanelColumns / 4 * S::template kVectorsPerFour<255>];
  typename S::Float scale[2][kPanelColumns / 16];
  typename S::Float min[2][kPanelColumns / 16];
};

/// The properties of a block type that the multiplication depends on; types with equal properties share code.
template <int group, int largest, bool has_min>
struct Grouping {
  static constexpr int kGroup = group;
  static constexpr int kLargest = largest;
  static constexpr bool kHasMin = has_min;
  static constexpr int kGroups = kPanelColumns / group;
};

/// Whether a pair of panels holds each weight plus an offset. If so, integer sums begin at -offset * (sum of
/// the activations).
template <class S, class G>
inline constexpr bool kWeightsAreOffset = !G::kHasMin && !S::kSubtractsOffset;

/// The initial values of the integer sums of a pass's tokens, for the groups of 256 columns. They are
/// computed once for all rows of the pass, because shifting and subtracting for every pair of panels took 5 %
/// of the time. Not used if all of them are zero.
template <class S, class G>
struct SumsBegin {
  int32_t value[kWeightsAreOffset<S, G> ? kPassTokens * G::kGroups : 1];

  /// offset_bits: the weights in a pair are the true weights plus 2^offset_bits.
  void set(const ActivationPlanes& x, int n_tokens, int n_groups, int offset_bits) {
    if constexpr (kWeightsAreOffset<S, G>) {
      for (int t = 0; t < n_tokens; ++t) {
        const std::byte* int_sum = x.int_sum + static_cast<size_t>(t) * x.stride;
        for (int g = 0; g < n_groups; ++g) {
          int32_t v;
          __builtin_memcpy(&v, int_sum + g * 4, sizeof v);
          value[t * G::kGroups + g] = -(v << offset_bits);
        }
      }
    }
  }
};

/// Returns the initial value for one token and group, in every lane.
template <class S, class G>
[[gnu::always_inline]] inline typename S::Int sum_begins(const int32_t* begin) {
  if constexpr (!kWeightsAreOffset<S, G>) return S::zero();
  return S::broadcast_dword(reinterpret_cast<const std::byte*>(begin));
}

/// Multiplies n_spans spans of two panels (32 columns each) by n tokens. `x` points to the first column of
/// the first token. For token t, totals[t] is the sum of the first panel, and totals[kPassTokens + t] is the
/// sum of the second panel. `begin` points to the first token's entry in SumsBegin. Inlined into the loop
/// over tiles, so that g++ keeps all addresses in registers; a call for each tile was 2 to 5 % slower.
template <class S, class G, int n>
[[gnu::always_inline]] inline void multiply_pair_tile(const PanelPair<S>& pair, int n_spans,
                                                      const ActivationPlanes& x, const int32_t* begin,
                                                      typename S::Float* totals) {
  using Int = typename S::Int;
  using Float = typename S::Float;
  constexpr int kParts = kActivationSpan / G::kGroup;
  constexpr int kVectors = G::kGroup / 4 * S::template kVectorsPerFour<G::kLargest>;
  Float total[2][n];
  for (int t = 0; t < n; ++t) {
    for (int p = 0; p < 2; ++p) total[p][t] = totals[p * kPassTokens + t];
  }
  for (int span = 0; span < n_spans; ++span) {
    Float dot[2][n];
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const int g = span * kParts + part;
      Int sum[2][n];
      for (int t = 0; t < n; ++t) {
        sum[0][t] = sum[1][t] = sum_begins<S, G>(begin + t * G::kGroups + g);
      }
      S::template dot_pair<n, G::kGroup, G::kLargest>(
          pair.quants[0] + g * kVectors, pair.quants[1] + g * kVectors, x.quants + span * kSpanBytesOf<S>,
          part * G::kGroup, x.stride, sum);
      for (int t = 0; t < n; ++t) {
        for (int p = 0; p < 2; ++p) {
          Float term = S::mul(S::to_float(sum[p][t]), pair.scale[p][g]);
          if constexpr (G::kHasMin) {
            term = S::add(term, S::mul(pair.min[p][g], S::broadcast_float(x.sum + t * x.stride + g * 4)));
          }
          dot[p][t] = part == 0 ? term : S::add(dot[p][t], term);
        }
      }
    }
    for (int t = 0; t < n; ++t) {
      const Float scale = S::broadcast_float(x.scale + t * x.stride + span * 4);
      for (int p = 0; p < 2; ++p) total[p][t] = S::add(total[p][t], S::mul(dot[p][t], scale));
    }
  }
  for (int t = 0; t < n; ++t) {
    for (int p = 0; p < 2; ++p) totals[p * kPassTokens + t] = total[p][t];
  }
}

/// Multiplies a pair by the last n tokens; n < limit is known only at run time.
template <class S, class G, int limit>
[[gnu::noinline]] void multiply_pair_rest(int n, const PanelPair<S>& pair, int n_spans,
                                          const ActivationPlanes& x, const int32_t* begin,
                                          typename S::Float* totals) {
  if constexpr (limit > 1) {
    if (n == limit - 1) return multiply_pair_tile<S, G, limit - 1>(pair, n_spans, x, begin, totals);
    multiply_pair_rest<S, G, limit - 1>(n, pair, n_spans, x, begin, totals);
  }
}

/// Multiplies a pair by n_tiles tiles of n tokens.
template <class S, class G, int n>
[[gnu::noinline]] void multiply_pair_tiles(int n_tiles, const PanelPair<S>& pair, int n_spans,
                                           ActivationPlanes x, const int32_t* begin,
                                           typename S::Float* totals) {
  for (int i = 0; i < n_tiles; ++i, x = tokens_later(x, n), begin += n * G::kGroups, totals += n) {
    multiply_pair_tile<S, G, n>(pair, n_spans, x, begin, totals);
  }
}

/// Multiplies a pair by n_tokens tokens, in tiles.
template <class S, class G>
void multiply_pair(const PanelPair<S>& pair, int n_spans, ActivationPlanes x, int n_tokens,
                   const int32_t* begin, typename S::Float* totals) {
  constexpr int kTile = S::template kTokenTile<G::kLargest, G::kGroup>;
  int t = 0;
  // A tile of very few tokens has too few sums to keep the multipliers busy. So if few tokens remain after
  // the full tiles, these and the tokens of one full tile are divided evenly into two tiles.
  if (const int rest = n_tokens % kTile; n_tokens > kTile && 0 < rest && 2 * rest < kTile) {
    t = (kTile + rest) / 2;
    multiply_pair_rest<S, G, kTile>(t, pair, n_spans, x, begin, totals);
    x = tokens_later(x, t);
  }
  const int n_tiles = (n_tokens - t) / kTile;
  multiply_pair_tiles<S, G, kTile>(n_tiles, pair, n_spans, x, begin + t * G::kGroups, totals + t);
  t += n_tiles * kTile;
  x = tokens_later(x, n_tiles * kTile);
  multiply_pair_rest<S, G, kTile>(n_tokens - t, pair, n_spans, x, begin + t * G::kGroups, totals + t);
}

/// Unpacks n_blocks blocks of every row of a pair: 2 * S::kLanes rows. If the ISA has S::arrange(), it then
/// reorders the bytes for dot_pair().
template <class S, class Block>
void unpack_pair(RowBlocks rows, int n_blocks, PanelPair<S>& pair) {
  constexpr int kVectors = S::template kVectorsPerFour<Block::kLargest>;
  for (int p = 0; p < 2; ++p, rows.row += S::kLanes) {
    if constexpr (kVectors == 1) {
      unpack_panel<S, Block>(rows, n_blocks, pair.quants[p], pair.scale[p], pair.min[p]);
      if constexpr (requires { S::template arrange<Block::kOffset>(pair.quants[p], 0); }) {
        S::template arrange<Block::kOffset>(pair.quants[p], n_blocks * (Block::kElems / 4));
      }
    } else {
      typename S::Int bytes[kPanelColumns / 4];
      unpack_panel<S, Block>(rows, n_blocks, bytes, pair.scale[p], pair.min[p]);
      const int n = n_blocks * (Block::kElems / 4);
      for (int i = 0; i < n; ++i) S::template spread<Block::kOffset>(bytes[i], pair.quants[p] + i * kVectors);
    }
  }
}

/// Prefetches kBytes bytes at `offset` of each of n rows.
template <size_t kBytes>
[[gnu::always_inline]] inline void prefetch_rows(const std::byte* const* row, int n, size_t offset) {
  for (int r = 0; r < n; ++r) {
    for (size_t b = 0; b < kBytes; b += 64) __builtin_prefetch(row[r] + offset + b);
  }
}

/// Computes output columns [row, row + n_rows) for tokens [token, token + n_tokens): at most kPassRows and
/// kPassTokens. Lanes without a row read the last row's bytes; their results are never stored.
template <class S, class Block>
void multiply_pass(const MatmulArgs& args, int64_t row, int n_rows, int token, int n_tokens) {
  constexpr int kPairRows = 2 * S::kLanes;
  constexpr size_t kStripBytes = kPanelColumns / Block::kElems * sizeof(Block);
  using G = Grouping<Block::kGroup, S::class_of(Block::kLargest), Block::kHasMin>;
  static_assert(Block::kHasMin == (Block::kOffset == 0));
  [[maybe_unused]] constexpr int kOffsetBits =
      Block::kHasMin ? 0 : __builtin_ctz(Block::kHasMin ? 1 : Block::kOffset);
  const Matrix& weight = *args.weight;
  const size_t row_bytes = static_cast<size_t>(weight.n_cols / Block::kElems) * sizeof(Block);
  const size_t stride = row_stride(weight, row_bytes);
  const int n_pairs = (n_rows + kPairRows - 1) / kPairRows;
  const std::byte* at[kPassRows];
  for (int r = 0; r < n_pairs * kPairRows; ++r) {
    at[r] = weight.data + row_at(args, row + (r < n_rows ? r : n_rows - 1)) * stride;
  }
  typename S::Float totals[kPassRows / S::kLanes][kPassTokens];
  for (int panel = 0; panel < 2 * n_pairs; ++panel) {
    for (int t = 0; t < n_tokens; ++t) totals[panel][t] = S::floats(0.0f);
  }
  PanelPair<S> pair;
  SumsBegin<S, G> begin;
  ActivationPlanes x = planes_of<S, Block>(args, token);
  for (int64_t column = 0; column < weight.n_cols; column += kPanelColumns) {
    const int64_t left = weight.n_cols - column;
    const int n_blocks = static_cast<int>((left < kPanelColumns ? left : kPanelColumns) / Block::kElems);
    const int n_spans = n_blocks * (Block::kElems / kActivationSpan);
    const size_t done = static_cast<size_t>(column / Block::kElems) * sizeof(Block);
    begin.set(x, n_tokens, n_spans * (kActivationSpan / Block::kGroup), kOffsetBits);
    for (int i = 0; i < n_pairs; ++i) {
      unpack_pair<S, Block>({at + i * kPairRows, done}, n_blocks, pair);
      if (left > kPanelColumns) prefetch_rows<kStripBytes>(at + i * kPairRows, kPairRows, done + kStripBytes);
      if constexpr (requires { S::template multiply_pair<G>(pair, n_spans, x, n_tokens, totals[2 * i]); }) {
        S::template multiply_pair<G>(pair, n_spans, x, n_tokens, totals[2 * i]);  // the ISA's own loop
      } else {
        multiply_pair<S, G>(pair, n_spans, x, n_tokens, begin.value, totals[2 * i]);
      }
    }
    advance<S, Block>(x, n_spans);
  }
  for (int r = 0; r < n_rows; r += S::kLanes) {
    const int n = n_rows - r < S::kLanes ? n_rows - r : S::kLanes;
    store_totals<S>(args, {row + r, 1, n, row + r}, token, n_tokens, totals[r / S::kLanes]);
  }
}

template <class S, class Block>
void multiply_many(const MatmulArgs& args) {
  for (int64_t row = args.row_begin; row < args.row_end; row += kPassRows) {
    const int64_t rows = args.row_end - row < kPassRows ? args.row_end - row : kPassRows;
    for (int token = 0; token < args.n_tokens; token += kPassTokens) {
      const int left = args.n_tokens - token;
      multiply_pass<S, Block>(args, row, static_cast<int>(rows), token,
                              left < kPassTokens ? left : kPassTokens);
    }
  }
}

}  // namespace hearth
