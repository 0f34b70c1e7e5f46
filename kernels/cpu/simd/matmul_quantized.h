// Multiplies quantized weights by quantized activations, for any vector ISA. matmul_many.h handles many
// tokens; this file handles one.
//
// With one token, every weight is read once, so memory limits the speed. For some types, a panel (one row per
// lane, 256 columns) is unpacked into the L1 cache and multiplied. For types for which that is slower,
// weights are multiplied as they are read (matmul_one_token.h). Both methods prefetch later strips at the
// same time. matmul_kernels.h gives the order of arithmetic.
#pragma once

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_lanes.h"
#include "kernels/cpu/simd/matmul_many.h"
#include "kernels/cpu/simd/matmul_one_token.h"
#include "kernels/cpu/simd/matmul_unpack_panel.h"

namespace hearth {

/// Multiplies n_spans spans of a panel (32 columns each), and adds the products to `total`. Rows are
/// prefetched one by one between the products. A burst of prefetches would fill the core's miss buffers, and
/// memory would be idle afterward. Without prefetching, decode loses a third of its speed: the hardware
/// prefetcher cannot follow so many short streams.
template <class S, class Block>
[[gnu::always_inline]] inline typename S::Float multiply_panel(const Panel<S>& panel, int n_spans,
                                                               const ActivationPlanes& x,
                                                               typename S::Float total,
                                                               const Ahead<S, Block>& ahead) {
  constexpr int kParts = kActivationSpan / Block::kGroup;
  for (int i = n_spans; i < kPanelSpans; ++i) ahead.ask(i);
  for (int span = 0; span < n_spans; ++span) {
    ahead.ask(span);
    total = add_panel_span<S, Block>(total, panel.quants + span * 8, panel.scale + span * kParts,
                                     panel.min + span * kParts, x, span);
  }
  return total;
}

/// Computes the lanes' rows for one token.
template <class S, class Block>
void multiply_rows(const MatmulArgs& args, const Lanes& lanes) {
  const Matrix& weight = *args.weight;
  const size_t row_bytes = static_cast<size_t>(weight.n_cols / Block::kElems) * sizeof(Block);
  const size_t stride = row_stride(weight, row_bytes);
  // First the addresses of the lanes' rows, then the addresses of the rows of the next lanes, which are only
  // prefetched. Lanes without a row read the last row's bytes; their results are never stored.
  const std::byte* at[2 * S::kLanes];
  for (int r = 0; r < S::kLanes; ++r) {
    const int64_t own = lanes.first + r * lanes.step, next = lanes.next + r * lanes.step;
    const int64_t last = args.row_end - 1;
    at[r] = weight.data + row_at(args, own < last ? own : last) * stride;
    at[S::kLanes + r] = weight.data + row_at(args, next < last ? next : last) * stride;
  }
  const bool in_runs = lanes.step > 1;
  const size_t wanted_bytes =
      (in_runs ? kStripsAheadInRuns<S, Block> : kStripsAhead) * Ahead<S, Block>::kBytes;
  const size_t ahead_bytes = wanted_bytes < row_bytes ? wanted_bytes : row_bytes;
  typename S::Float total = S::floats(0.0f);
  Panel<S> panel;
  ActivationPlanes x = planes_of<S, Block>(args, 0);
  for (int64_t column = 0; column < weight.n_cols; column += kPanelColumns) {
    const int64_t left = weight.n_cols - column;
    const int n_blocks = static_cast<int>((left < kPanelColumns ? left : kPanelColumns) / Block::kElems);
    const int n_spans = n_blocks * (Block::kElems / kActivationSpan);
    const size_t done = static_cast<size_t>(column / Block::kElems) * sizeof(Block);
    const size_t later = done + ahead_bytes;
    const Ahead<S, Block> ahead = {later < row_bytes ? at : at + S::kLanes,
                                   later < row_bytes ? later : later - row_bytes, !in_runs};
    if (OneToken<S, Block>::kFused && n_spans == kPanelSpans) {
      total = OneToken<S, Block>::run({at, done}, x, total, ahead);
    } else {
      unpack_panel<S, Block>({at, done}, n_blocks, panel.quants, panel.scale, panel.min);
      total = multiply_panel<S, Block>(panel, n_spans, x, total, ahead);
    }
    advance<S, Block>(x, n_spans);
  }
  store_totals<S>(args, lanes, 0, 1, &total);
}

/// Returns how many consecutive rows each lane reads, or 0 if neighboring lanes should read neighboring rows.
/// With consecutive rows, a lane reads one long run of bytes, which the hardware's prefetchers follow across
/// rows. For long rows of types with few bytes per column, this is 6 to 12 % faster (Q4_0 and Q4_K, 2048 and
/// 5632 columns, Zen 4). Rows of 432 bytes become 1.5 times as fast (768 columns of Q4_0, as in
/// the down matrices of small experts; AVX-512, Emerald Rapids). Types with long strips become faster if L1
/// is large (Zen 5: Q8_0 9 %, Q6_K 25 %), but slower if it is not (Zen 4: Q8_0 20 %). Rows of 360 bytes
/// become slower (576 columns of Q4_1: 21 %).
template <class S, class Block>
int64_t rows_per_lane(const MatmulArgs& args, size_t row_bytes) {
  constexpr size_t kLeastBytes = 8 * 1024, kLeastRowBytes = 400, kPage = 4096;
  if (args.rows != nullptr || row_bytes < kLeastRowBytes) return 0;
  if (kStripIsLong<Block> && !args.large_l1) return 0;
  const size_t stride = row_stride(*args.weight, row_bytes);
  const int64_t n = (args.row_end - args.row_begin) / S::kLanes;
  if (static_cast<size_t>(n) * stride < kLeastBytes) return 0;
  // If the lanes were a multiple of a page apart, they would compete for a few sets of the cache.
  return static_cast<size_t>(n) * stride % kPage == 0 ? n - 1 : n;
}

template <class S, class Block>
void multiply_one(const MatmulArgs& args) {
  const size_t row_bytes = static_cast<size_t>(args.weight->n_cols / Block::kElems) * sizeof(Block);
  const int64_t step = rows_per_lane<S, Block>(args, row_bytes);
  for (int64_t i = 0; i < step; ++i) {
    const int64_t row = args.row_begin + i;
    multiply_rows<S, Block>(args, {row, step, S::kLanes, i + 1 < step ? row + 1 : row});
  }
  for (int64_t row = args.row_begin + step * S::kLanes; row < args.row_end; row += S::kLanes) {
    const int64_t n = args.row_end - row < S::kLanes ? args.row_end - row : S::kLanes;
    multiply_rows<S, Block>(args, {row, 1, static_cast<int>(n), row + S::kLanes});
  }
}

/// The Simd classes for one token and for many tokens must read the same layout of quantized activations. If
/// Simds has a class OneInLargeL1, this class replaces One on processors with a large L1 cache.
template <class Simds, class Block>
void multiply_quantized(const MatmulArgs& args) {
  if (args.n_tokens == 1) {
    if constexpr (requires { typename Simds::template OneInLargeL1<Block>; }) {
      if (args.large_l1) return multiply_one<typename Simds::template OneInLargeL1<Block>, Block>(args);
    }
    multiply_one<typename Simds::template One<Block>, Block>(args);
  } else {
    multiply_many<typename Simds::template Many<Block>, Block>(args);
  }
}

}  // namespace hearth
