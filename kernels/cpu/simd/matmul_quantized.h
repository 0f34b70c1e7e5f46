// Quantised weights times quantised activations, for any vector ISA: unpacks a panel of rows and multiplies
// it with all tokens.
//
// A panel (one row per lane, 256 columns) is unpacked into the L1 cache once and multiplied with up to
// kTokensPerPanel tokens, in tiles of Simd::kTokenTile whose accumulators stay in registers. Between panels a
// small array holds the float accumulators of all tokens; storing and loading them changes no bit.
// matmul_kernels.h gives the order of arithmetic.
#pragma once

#include "kernels/cpu/activation_row.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_one_token.h"
#include "kernels/cpu/simd/matmul_unpack.h"
#include "kernels/cpu/simd/matmul_unpack_k.h"
#include "kernels/cpu/simd/matmul_unpack_runs.h"

namespace hearth {

/// Tokens that use a panel once it is unpacked. With 64, unpacking is about a tenth of the work; their
/// activations for 256 columns (about 37 KB) stay in a 48 KB L1 cache beside the panel.
inline constexpr int kTokensPerPanel = 64;

/// Turns sums of offset weights into sums of true weights: subtracts offset * sum of the activations.
template <class S, int offset>
[[gnu::always_inline]] inline typename S::Int without_offset(typename S::Int sum, const std::byte* int_sum) {
  static_assert((offset & (offset - 1)) == 0);
  if constexpr (offset == 0) return sum;
  constexpr int kShift = __builtin_ctz(offset == 0 ? 1 : offset);
  return S::sub(sum, S::template shift_left<kShift>(S::broadcast_dword(int_sum)));
}

/// Multiplies n_spans spans of 32 columns of a panel with n tokens, starting at `token`. `x` points at the
/// panel's first column. With kAsk it prefetches a part of `ahead` at every span.
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

/// Multiplies the tile of the last n tokens, starting at `token`; n < limit is known at run time only.
template <class S, class Block, int limit>
void multiply_rest(int n, const Panel<S>& panel, int n_spans, const ActivationPlanes& x, int token,
                   typename S::Float* totals) {
  if constexpr (limit > 1) {
    if (n == limit - 1) return multiply_tile<S, Block, limit - 1>(panel, n_spans, x, token, totals);
    multiply_rest<S, Block, limit - 1>(n, panel, n_spans, x, token, totals);
  }
}

/// Multiplies one panel with n_tokens tokens, in tiles, and prefetches a later strip. Prefetches go row by
/// row between the products, because a burst of them would fill the core's miss buffers and then leave the
/// memory idle. Without prefetching, decode loses a third of its speed: the hardware does not follow so many
/// streams that end so soon.
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

/// Unpacks n_blocks blocks of every row, at most kPanelColumns columns.
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

/// The planes of token `token`, starting at the first column.
template <class S, class Block>
[[gnu::always_inline]] inline ActivationPlanes planes_of(const MatmulArgs& args, int token) {
  const int64_t n_cols = args.weight->n_cols;
  const size_t stride = activation_row_size(n_cols);
  // The view is only read here; the cast is needed because ActivationRow is also used for writing.
  const ActivationRow row = activation_row(const_cast<std::byte*>(args.quantized) + token * stride, n_cols);
  const bool halves = Block::kGroup == kActivationHalf;
  return {row.quants, reinterpret_cast<const std::byte*>(row.scale),
          reinterpret_cast<const std::byte*>(halves ? row.half_sum : row.sum),
          reinterpret_cast<const std::byte*>(halves ? row.half_int_sum : row.int_sum), stride};
}

/// Moves the planes on by n_spans spans of 32 columns.
template <class S, class Block>
[[gnu::always_inline]] inline void advance(ActivationPlanes& x, int n_spans) {
  constexpr int kParts = kActivationSpan / Block::kGroup;
  x.quants += n_spans * kSpanBytes;
  x.scale += n_spans * sizeof(float);
  x.sum += n_spans * kParts * sizeof(float);
  x.int_sum += n_spans * kParts * sizeof(int32_t);
}

/// The output columns of the lanes: lane r computes first + r * step. Lanes from n on have no row.
struct Lanes {
  int64_t first;
  int64_t step;
  int n;
  int64_t next;  // `first` of the following lanes, or `first` again
};

/// Adds a panel's sums to the output, or stores them there.
template <class S>
void store_totals(const MatmulArgs& args, const Lanes& lanes, int token, int n_tokens,
                  const typename S::Float* totals) {
  float bias[S::kLanes] = {};
  if (args.bias != nullptr) {
    for (int r = 0; r < lanes.n; ++r) bias[r] = args.bias[row_at(args, lanes.first + r * lanes.step)];
  }
  for (int t = 0; t < n_tokens; ++t) {
    float* out = args.out + (token + t) * args.out_stride + lanes.first;
    typename S::Float value = totals[t];
    if (args.bias != nullptr) value = S::add(value, S::load_floats(bias));
    if (lanes.step == 1) {
      if (args.accumulate) value = S::add(S::load_floats(out, lanes.n), value);
      S::store_floats(out, value, lanes.n);
      continue;
    }
    float values[S::kLanes];
    S::store_floats(values, value, S::kLanes);
    for (int r = 0; r < lanes.n; ++r) {
      float& to = out[r * lanes.step];
      to = args.accumulate ? to + values[r] : values[r];
    }
  }
}

/// Computes the lanes' rows for tokens [token, token + n_tokens).
template <class S, class Block>
void multiply_rows(const MatmulArgs& args, const Lanes& lanes, int token, int n_tokens) {
  const Matrix& weight = *args.weight;
  const size_t row_bytes = static_cast<size_t>(weight.n_cols / Block::kElems) * sizeof(Block);
  const size_t stride = row_stride(weight, row_bytes);
  // The addresses of these rows, and of the next ones, which are only prefetched. Lanes without a row read
  // the last row's bytes; their results are never stored.
  const std::byte* at[2 * S::kLanes];
  for (int r = 0; r < S::kLanes; ++r) {
    const int64_t own = lanes.first + r * lanes.step, next = lanes.next + r * lanes.step;
    const int64_t last = args.row_end - 1;
    at[r] = weight.data + row_at(args, own < last ? own : last) * stride;
    at[S::kLanes + r] = weight.data + row_at(args, next < last ? next : last) * stride;
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
    if constexpr (OneToken<S, Block>::kFused) {
      if (n_tokens == 1 && n_spans == kPanelSpans) {
        totals[0] = OneToken<S, Block>::run({at, done}, x, totals[0], ahead);
        advance<S, Block>(x, n_spans);
        continue;
      }
    }
    unpack_panel<S, Block>({at, done}, n_blocks, panel);
    multiply_panel<S, Block>(panel, n_spans, x, n_tokens, totals, ahead);
    advance<S, Block>(x, n_spans);
  }
  store_totals<S>(args, lanes, token, n_tokens, totals);
}

/// For one token: the number of consecutive rows that each lane reads, all lanes at once, or 0 where that
/// does not pay. A lane then reads one long run of bytes, which the hardware's prefetchers follow across
/// rows. This is 11 % faster (Q4_0, 4096 columns, 512 KiB, Zen 5) than neighbouring rows on neighbouring
/// lanes, where every page holds parts of three rows.
template <class S>
int64_t rows_per_lane(const MatmulArgs& args, size_t stride) {
  constexpr size_t kLeastBytes = 8 * 1024, kPage = 4096;
  if (args.n_tokens != 1 || args.rows != nullptr) return 0;
  const int64_t n = (args.row_end - args.row_begin) / S::kLanes;
  if (static_cast<size_t>(n) * stride < kLeastBytes) return 0;
  // If the lanes were whole pages apart, they would share a few sets of the cache.
  return static_cast<size_t>(n) * stride % kPage == 0 ? n - 1 : n;
}

template <class S, class Block>
void multiply_quantized(const MatmulArgs& args) {
  const size_t row_bytes = static_cast<size_t>(args.weight->n_cols / Block::kElems) * sizeof(Block);
  const int64_t step = rows_per_lane<S>(args, row_stride(*args.weight, row_bytes));
  const int64_t begin = args.row_begin + step * S::kLanes;
  for (int64_t i = 0; i < step; ++i) {
    const int64_t row = args.row_begin + i;
    multiply_rows<S, Block>(args, {row, step, S::kLanes, i + 1 < step ? row + 1 : row}, 0, 1);
  }
  for (int token = 0; token < args.n_tokens; token += kTokensPerPanel) {
    const int left = args.n_tokens - token;
    const int n_tokens = left < kTokensPerPanel ? left : kTokensPerPanel;
    for (int64_t row = begin; row < args.row_end; row += S::kLanes) {
      const int64_t n = args.row_end - row < S::kLanes ? args.row_end - row : S::kLanes;
      multiply_rows<S, Block>(args, {row, 1, static_cast<int>(n), row + S::kLanes}, token, n_tokens);
    }
  }
}

}  // namespace hearth
