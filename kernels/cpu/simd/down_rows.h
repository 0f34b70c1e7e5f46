// Down rows times values, added up over a few rows at a time, for any vector ISA. See down_kernels.h.
#pragma once

#include "kernels/cpu/down_kernels.h"
#include "kernels/cpu/simd/down_strips.h"
#include "kernels/quant/dequantize.h"

namespace hearth {

/// Rows per pass over the columns: sums are loaded and stored once for so many.
inline constexpr int kDownRows = 4;

/// Columns between two looks at what to prefetch.
inline constexpr int64_t kDownChunk = 256;

/// Where the rows of one pass begin, and those of the next (n_next of them).
struct DownPass {
  const std::byte* rows[kDownRows];
  float values[kDownRows];
  const std::byte* next[kDownRows];
  int n_next;
};

/// Factors of the strips of a chunk, [row][strip][half]. Halves are copied together a chunk ahead of their
/// conversion: a wide load of what narrow stores have just written would wait for them.
template <class Format, int n_rows>
struct ChunkFactors {
  static constexpr int kStrips = static_cast<int>(kDownChunk / kStripColumns);
  static constexpr int kPerRow = kStrips * Format::kHalves;
  uint16_t halves[n_rows * kPerRow + 8];
  float floats[n_rows * kPerRow + 8];

  /// Copies the halves of n strips of each row.
  [[gnu::always_inline]] void take(const DownPass& pass, size_t at, int64_t n) {
    for (int r = 0; r < n_rows; ++r) {
      for (int64_t strip = 0; strip < n; ++strip) {
        __builtin_memcpy(&halves[r * kPerRow + strip * Format::kHalves],
                         pass.rows[r] + at + static_cast<size_t>(strip) * Format::kBytes,
                         2 * Format::kHalves);
      }
    }
  }
  template <class S>
  [[gnu::always_inline]] void convert() {
    for (int i = 0; i < n_rows * kPerRow; i += 8) S::eight_halves(halves + i, floats + i);
  }
  const float* of(int r, int64_t strip) const { return floats + r * kPerRow + strip * Format::kHalves; }
};

/// A strip's weights, its factors converted alone.
template <class S, class Format>
[[gnu::always_inline]] inline typename S::Strip one_strip(const std::byte* p) {
  uint16_t halves[8] = {};
  float factors[8];
  if constexpr (Format::kHalves > 0) {
    __builtin_memcpy(halves, p, 2 * Format::kHalves);
    S::eight_halves(halves, factors);
  }
  return Format::template weights<S>(p, factors);
}

/// The last n < 32 columns of rows of plain floats, by way of copies.
template <class S, class Format, int n_rows>
void add_tail(const DownPass& pass, size_t at, int n, bool fresh, float* sum) {
  constexpr size_t kElemBytes = Format::kBytes / kStripColumns;
  float sums[kStripColumns] = {};
  if (!fresh) __builtin_memcpy(sums, sum, static_cast<size_t>(n) * sizeof(float));
  typename S::Strip total = S::load(sums);
  for (int r = 0; r < n_rows; ++r) {
    std::byte bytes[Format::kBytes] = {};
    __builtin_memcpy(bytes, pass.rows[r] + at, static_cast<size_t>(n) * kElemBytes);
    total = S::fma(pass.values[r], one_strip<S, Format>(bytes), total);
  }
  S::store(total, sums);
  __builtin_memcpy(sum, sums, static_cast<size_t>(n) * sizeof(float));
}

/// One pass of n_rows rows over n columns.
template <class S, class Format, int n_rows>
void add_pass(const DownPass& pass, int64_t n, bool fresh, float* sum) {
  const int64_t n_strips = n / kStripColumns;
  constexpr int64_t kChunkStrips = kDownChunk / kStripColumns;
  const auto strips_from = [&](int64_t first) {
    return n_strips - first < kChunkStrips ? n_strips - first : kChunkStrips;
  };
  ChunkFactors<Format, n_rows> factors;
  if constexpr (Format::kHalves > 0) __builtin_memset(factors.halves, 0, sizeof factors.halves);
  factors.take(pass, 0, strips_from(0));
  size_t at = 0, asked = 0;
  for (int64_t first = 0; first < n_strips; first += kChunkStrips) {
    const int64_t n_here = strips_from(first);
    factors.template convert<S>();
    const size_t next = at + static_cast<size_t>(n_here) * Format::kBytes;
    factors.take(pass, next, strips_from(first + n_here));
    for (int64_t strip = 0; strip < n_here; ++strip, at += Format::kBytes) {
      // Once a cache line: the same place in the rows of the next pass.
      if (at >= asked) {
        for (int r = 0; r < pass.n_next; ++r) __builtin_prefetch(pass.next[r] + asked);
        asked += 64;
      }
      float* to = sum + (first + strip) * kStripColumns;
      typename S::Strip total = fresh ? S::zero() : S::load(to);
#pragma GCC unroll 4
      for (int r = 0; r < n_rows; ++r) {
        const float* f = factors.of(r, strip);
        total = S::fma(pass.values[r], Format::template weights<S>(pass.rows[r] + at, f), total);
      }
      S::store(total, to);
    }
  }
  const int left = static_cast<int>(n % kStripColumns);
  if (left > 0) add_tail<S, Format, n_rows>(pass, at, left, fresh, sum + n_strips * kStripColumns);
}

/// DownKernels::add_rows of a type with a Format.
template <class S, class Format>
void add_rows(const DownArgs& args) {
  const Matrix& rows = args.down->rows;
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols) * Format::kBytes / kStripColumns;
  const std::byte* data = rows.data + static_cast<size_t>(args.column_begin / kStripColumns) * Format::kBytes;
  const int64_t n = args.column_end - args.column_begin;
  const auto row_at = [&](int i) { return data + static_cast<size_t>(args.ids[i]) * stride; };
  DownPass pass{};
  for (int i = 0; i < args.n; i += kDownRows) {
    const int n_rows = args.n - i < kDownRows ? args.n - i : kDownRows;
    const int left = args.n - i - n_rows;
    pass.n_next = left < kDownRows ? left : kDownRows;
    for (int r = 0; r < n_rows; ++r) {
      pass.rows[r] = row_at(i + r);
      pass.values[r] = args.values[i + r];
    }
    for (int r = 0; r < pass.n_next; ++r) pass.next[r] = row_at(i + n_rows + r);
    const bool fresh = args.fresh && i == 0;
    static_assert(kDownRows == 4);
    if (n_rows == 4) add_pass<S, Format, 4>(pass, n, fresh, args.sum);
    if (n_rows == 3) add_pass<S, Format, 3>(pass, n, fresh, args.sum);
    if (n_rows == 2) add_pass<S, Format, 2>(pass, n, fresh, args.sum);
    if (n_rows == 1) add_pass<S, Format, 1>(pass, n, fresh, args.sum);
  }
}

/// sum[c] = fma(value, weights[c], sum[c]) for n columns, or fma(.., 0).
template <class S>
void add_floats(float value, const float* weights, int64_t n, bool fresh, float* sum) {
  int64_t c = 0;
  for (; c + kStripColumns <= n; c += kStripColumns) {
    const typename S::Strip total = fresh ? S::zero() : S::load(sum + c);
    S::store(S::fma(value, S::load(weights + c), total), sum + c);
  }
  for (; c < n; ++c) sum[c] = S::fma_one(value, weights[c], fresh ? 0.0f : sum[c]);
}

/// DownKernels::dequantize of a type with a Format.
template <class S, class Format>
void dequantize_strips(const Matrix& rows, int64_t row, int64_t column, int64_t n, float* out) {
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols) * Format::kBytes / kStripColumns;
  const std::byte* at = rows.data + static_cast<size_t>(row) * stride +
                        static_cast<size_t>(column / kStripColumns) * Format::kBytes;
  for (; n >= kStripColumns; n -= kStripColumns, at += Format::kBytes, out += kStripColumns) {
    S::store(one_strip<S, Format>(at), out);
  }
  if (n == 0) return;
  std::byte bytes[Format::kBytes] = {};
  float floats[kStripColumns];
  __builtin_memcpy(bytes, at, static_cast<size_t>(n) * (Format::kBytes / kStripColumns));
  S::store(one_strip<S, Format>(bytes), floats);
  __builtin_memcpy(out, floats, static_cast<size_t>(n) * sizeof(float));
}

/// The same for types without vector loops of their own. `type` and its block are template arguments, so that
/// nothing of dtype.h is called here.
template <class S, DType type, class Block>
void dequantize_blocks(const Matrix& rows, int64_t row, int64_t column, int64_t n, float* out) {
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols / Block::kElems) * sizeof(Block);
  dequantize_row(type,
                 rows.data + static_cast<size_t>(row) * stride +
                     static_cast<size_t>(column / Block::kElems) * sizeof(Block),
                 n, out);
}

/// DownKernels::add_rows by way of dequantised floats.
template <class S, DType type, class Block>
void add_dequantized(const DownArgs& args) {
  float weights[kDownStripColumns];
  for (int64_t column = args.column_begin; column < args.column_end; column += kDownStripColumns) {
    const int64_t left = args.column_end - column;
    const int64_t n = left < kDownStripColumns ? left : kDownStripColumns;
    for (int i = 0; i < args.n; ++i) {
      dequantize_blocks<S, type, Block>(args.down->rows, args.ids[i], column, n, weights);
      add_floats<S>(args.values[i], weights, n, args.fresh && i == 0,
                    args.sum + (column - args.column_begin));
    }
  }
}

}  // namespace hearth
