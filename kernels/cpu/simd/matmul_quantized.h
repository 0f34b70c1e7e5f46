// Quantised weights times quantised activations, for any vector ISA: unpack a panel of rows, multiply it with
// all tokens.
//
// A panel (one row per lane, 256 columns) is unpacked into the L1 cache once and multiplied with up to
// kTokensPerPanel tokens, in tiles of Simd::kTokenTile whose accumulators stay in registers. Between panels
// the float accumulators of all tokens rest in a small array; storing and loading them changes no bit. Order
// of arithmetic: matmul_kernels.h.
#pragma once

#include "kernels/cpu/activation_row.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_unpack.h"
#include "kernels/cpu/simd/matmul_unpack_k.h"
#include "kernels/cpu/simd/matmul_unpack_runs.h"

namespace hearth {

/// Tokens one unpacking serves. 64 make unpacking about a tenth of the work; their activations for 256
/// columns (about 37 KB) stay in a 48 KB L1 cache beside the panel.
inline constexpr int kTokensPerPanel = 64;

inline constexpr int kPanelSpans = kPanelColumns / kActivationSpan;

/// Strips (256 columns of a panel's rows) that lie between the one that is multiplied and the one that is
/// asked for. Measured on Sapphire Rapids at one token: 2 to 4 are alike, 1 is too late for 8 lanes, 6 and
/// more leave the L1 cache before their turn.
inline constexpr size_t kStripsAhead = 3;

/// A strip that is needed soon: kBytes from `offset` on of S::kLanes rows.
template <class S, class Block>
struct Ahead {
  static constexpr size_t kBytes = kPanelColumns / Block::kElems * sizeof(Block);
  const std::byte* const* row;
  size_t offset;

  /// Asks for the rows' part i of kPanelSpans.
  [[gnu::always_inline]] void ask(int i) const {
    constexpr int kRows = S::kLanes / kPanelSpans;
    for (int r = i * kRows; r < (i + 1) * kRows; ++r) {
      for (size_t b = 0; b < kBytes; b += 64) __builtin_prefetch(row[r] + offset + b);
    }
  }
};

/// Planes of the activation rows of a group of tokens: token t's plane starts `stride` bytes after token
/// t-1's.
struct ActivationPlanes {
  const std::byte* quants;
  const std::byte* scale;
  const std::byte* sum;      // of the columns of a weight group, float
  const std::byte* int_sum;  // the same, int32
  size_t stride;
};

/// Sums of offset weights to sums of true weights: less offset * sum of the activations.
template <class S, int offset>
[[gnu::always_inline]] inline typename S::Int without_offset(typename S::Int sum, const std::byte* int_sum) {
  static_assert((offset & (offset - 1)) == 0);
  if constexpr (offset == 0) return sum;
  constexpr int kShift = __builtin_ctz(offset == 0 ? 1 : offset);
  return S::sub(sum, S::template shift_left<kShift>(S::broadcast_dword(int_sum)));
}

/// Multiplies n_spans spans of 32 columns of a panel with the n tokens from `token` on. `x` points at the
/// panel's first column. With kAsk it asks for a part of `ahead` at every span.
template <class S, class Block, int n, bool kAsk = false>
void multiply_tile(const Panel<S>& panel, int n_spans, const ActivationPlanes& planes, int token,
                   typename S::Float* totals, const Ahead<S, Block>& ahead = {}) {
  using Int = typename S::Int;
  using Float = typename S::Float;
  constexpr int kParts = kActivationSpan / Block::kGroup;
  const size_t skipped = static_cast<size_t>(token) * planes.stride;
  const ActivationPlanes x = {planes.quants + skipped, planes.scale + skipped, planes.sum + skipped,
                              planes.int_sum + skipped, planes.stride};
  totals += token;
  Float total[n];
  for (int t = 0; t < n; ++t) total[t] = totals[t];
  for (int span = 0; span < n_spans; ++span) {
    if constexpr (kAsk) ahead.ask(span);
    Float dot[n];
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const int g = span * kParts + part;
      Int sum[n];
      S::template dot<n, Block::kGroup>(panel.quants + g * (Block::kGroup / 4), x.quants + span * kSpanBytes,
                                        part * Block::kGroup, x.stride, sum);
      for (int t = 0; t < n; ++t) {
        sum[t] = without_offset<S, Block::kOffset>(sum[t], x.int_sum + t * x.stride + g * 4);
        Float term = S::mul(S::to_float(sum[t]), panel.scale[g]);
        if constexpr (Block::kHasMin) {
          term = S::add(term, S::mul(panel.min[g], S::broadcast_float(x.sum + t * x.stride + g * 4)));
        }
        dot[t] = part == 0 ? term : S::add(dot[t], term);
      }
    }
    for (int t = 0; t < n; ++t) {
      total[t] = S::add(total[t], S::mul(dot[t], S::broadcast_float(x.scale + t * x.stride + span * 4)));
    }
  }
  for (int t = 0; t < n; ++t) totals[t] = total[t];
}

/// The tile of the last n tokens, from `token` on; n < limit is known at run time only.
template <class S, class Block, int limit>
void multiply_rest(int n, const Panel<S>& panel, int n_spans, const ActivationPlanes& x, int token,
                   typename S::Float* totals) {
  if constexpr (limit > 1) {
    if (n == limit - 1) return multiply_tile<S, Block, limit - 1>(panel, n_spans, x, token, totals);
    multiply_rest<S, Block, limit - 1>(n, panel, n_spans, x, token, totals);
  }
}

/// One panel for n_tokens tokens, in tiles, while a later strip is fetched: row by row between the products,
/// for a burst of requests would fill the core's buffers for misses and then leave the memory idle. Without
/// it decode loses a third of its speed, as the hardware does not follow so many streams that end so soon.
template <class S, class Block>
void multiply_panel(const Panel<S>& panel, int n_spans, const ActivationPlanes& x, int n_tokens,
                    typename S::Float* totals, const Ahead<S, Block>& ahead) {
  const int asked = n_tokens == 1 ? n_spans : 0;
  for (int i = asked; i < kPanelSpans; ++i) ahead.ask(i);
  if (n_tokens == 1) return multiply_tile<S, Block, 1, true>(panel, n_spans, x, 0, totals, ahead);
  int token = 0;
  for (; token + S::kTokenTile <= n_tokens; token += S::kTokenTile) {
    multiply_tile<S, Block, S::kTokenTile>(panel, n_spans, x, token, totals);
  }
  multiply_rest<S, Block, S::kTokenTile>(n_tokens - token, panel, n_spans, x, token, totals);
}

/// Unpacks up to kPanelColumns columns: n_blocks blocks of every row.
template <class S, class Block>
[[gnu::always_inline]] inline void unpack_panel(RowBlocks rows, int n_blocks, Panel<S>& panel) {
  constexpr int kGroups = Block::kElems / Block::kGroup;
  constexpr int kRun = UnpackRun<S, Block>::kBlocks;
  int b = 0;
  if constexpr (kRun > 0) {
    for (; b + kRun <= n_blocks; b += kRun, rows.offset += kRun * sizeof(Block)) {
      UnpackRun<S, Block>::run(rows, panel.quants + b * (Block::kElems / 4), panel.scale + b * kGroups,
                               panel.min + b * kGroups);
    }
  }
  for (; b < n_blocks; ++b, rows.offset += sizeof(Block)) {
    Unpack<S, Block>::run(rows, panel.quants + b * (Block::kElems / 4), panel.scale + b * kGroups,
                          panel.min + b * kGroups);
  }
}

/// The planes of token `token`, from the first column on.
template <class S, class Block>
[[gnu::always_inline]] inline ActivationPlanes planes_of(const MatmulArgs& args, int token) {
  const int64_t n_cols = args.weight->n_cols;
  const size_t stride = activation_row_size(n_cols);
  // The view is read-only here; ActivationRow serves writers too.
  const ActivationRow row = activation_row(const_cast<std::byte*>(args.quantized) + token * stride, n_cols);
  const bool halves = Block::kGroup == kActivationHalf;
  return {row.quants, reinterpret_cast<const std::byte*>(row.scale),
          reinterpret_cast<const std::byte*>(halves ? row.half_sum : row.sum),
          reinterpret_cast<const std::byte*>(halves ? row.half_int_sum : row.int_sum), stride};
}

/// Moves on by n_spans spans of 32 columns.
template <class S, class Block>
[[gnu::always_inline]] inline void advance(ActivationPlanes& x, int n_spans) {
  constexpr int kParts = kActivationSpan / Block::kGroup;
  x.quants += n_spans * kSpanBytes;
  x.scale += n_spans * sizeof(float);
  x.sum += n_spans * kParts * sizeof(float);
  x.int_sum += n_spans * kParts * sizeof(int32_t);
}

/// Adds a panel's sums, of n_rows rows from place `row` on, to the output, or puts them there.
template <class S>
void store_totals(const MatmulArgs& args, int64_t row, int n_rows, int token, int n_tokens,
                  const typename S::Float* totals) {
  float bias[S::kLanes] = {};
  if (args.bias != nullptr) {
    for (int r = 0; r < n_rows; ++r) bias[r] = args.bias[row_at(args, row + r)];
  }
  for (int t = 0; t < n_tokens; ++t) {
    float* out = args.out + (token + t) * args.out_stride + row;
    typename S::Float value = totals[t];
    if (args.bias != nullptr) value = S::add(value, S::load_floats(bias));
    if (args.accumulate) value = S::add(S::load_floats(out, n_rows), value);
    S::store_floats(out, value, n_rows);
  }
}

/// The rows at places [row, row + n_rows) for tokens [token, token + n_tokens); n_rows <= S::kLanes.
template <class S, class Block>
void multiply_rows(const MatmulArgs& args, int64_t row, int n_rows, int token, int n_tokens) {
  const Matrix& weight = *args.weight;
  const size_t row_bytes = static_cast<size_t>(weight.n_cols / Block::kElems) * sizeof(Block);
  const size_t stride = row_stride(weight, row_bytes);
  // These rows and the next ones, which are only asked for. Lanes without a row take the last one's bytes;
  // their results are never stored.
  const std::byte* at[2 * S::kLanes];
  for (int r = 0; r < 2 * S::kLanes; ++r) {
    const int64_t place = row + r < args.row_end ? row + r : args.row_end - 1;
    at[r] = weight.data + row_at(args, place) * stride;
  }
  constexpr size_t kAheadBytes = kStripsAhead * Ahead<S, Block>::kBytes;
  const size_t ahead_bytes = kAheadBytes < row_bytes ? kAheadBytes : row_bytes;
  typename S::Float totals[kTokensPerPanel];
  for (int t = 0; t < n_tokens; ++t) totals[t] = S::floats(0.0f);
  Panel<S> panel;
  ActivationPlanes x = planes_of<S, Block>(args, token);
  for (int64_t column = 0; column < weight.n_cols; column += kPanelColumns) {
    const int64_t left = weight.n_cols - column;
    const int n_blocks = static_cast<int>((left < kPanelColumns ? left : kPanelColumns) / Block::kElems);
    const int n_spans = n_blocks * (Block::kElems / kActivationSpan);
    const size_t done = static_cast<size_t>(column / Block::kElems) * sizeof(Block);
    const size_t later = done + ahead_bytes;
    const Ahead<S, Block> ahead = {later < row_bytes ? at : at + S::kLanes,
                                   later < row_bytes ? later : later - row_bytes};
    unpack_panel<S, Block>({at, done}, n_blocks, panel);
    multiply_panel<S, Block>(panel, n_spans, x, n_tokens, totals, ahead);
    advance<S, Block>(x, n_spans);
  }
  store_totals<S>(args, row, n_rows, token, n_tokens, totals);
}

template <class S, class Block>
void multiply_quantized(const MatmulArgs& args) {
  for (int token = 0; token < args.n_tokens; token += kTokensPerPanel) {
    const int left = args.n_tokens - token;
    const int n_tokens = left < kTokensPerPanel ? left : kTokensPerPanel;
    for (int64_t row = args.row_begin; row < args.row_end; row += S::kLanes) {
      const int64_t rows_left = args.row_end - row;
      multiply_rows<S, Block>(args, row, static_cast<int>(rows_left < S::kLanes ? rows_left : S::kLanes),
                              token, n_tokens);
    }
  }
}

}  // namespace hearth
