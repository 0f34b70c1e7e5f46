// Adds down rows times values, a few rows at a time, for any vector ISA. See down_kernels.h.
#pragma once

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/simd/down_blocks.h"

namespace hearth {

/// Rows per pass over the columns. Sums are loaded and stored once per pass.
inline constexpr int kDownRows = 4;

/// Columns that a pass handles at a time: their factors are converted together.
inline constexpr int64_t kDownChunk = 256;

/// The addresses of the rows of one pass, and of the n_next rows of the next pass.
struct DownPass {
  const std::byte* rows[kDownRows];
  float values[kDownRows];
  const std::byte* next[kDownRows];
  int n_next;
};

/// Calls add(pass, n_rows, first) for the rows in `args`, kDownRows at a time, and then for the remaining
/// rows. `first` is the list index of the first row in the pass. Row 0 of the matrix begins at `data`, and
/// each further row `stride` bytes after the previous one.
template <class Args, class Add>
[[gnu::always_inline]] inline void for_each_pass(const Args& args, const std::byte* data, size_t stride,
                                                 Add&& add) {
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
    add(pass, n_rows, i);
  }
}

/// Factors of the strips in kDownChunk columns, [row][strip][half]. The halves of a chunk are copied before
/// the previous chunk is processed, and are converted after that, because a wide load stalls if narrow stores
/// have just written its bytes.
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

/// Converts the factors of one strip to floats, and returns the strip's weights.
template <class S, class Format>
[[gnu::always_inline]] inline typename S::Strip one_strip(const std::byte* p) {
  float factors[2] = {};
  for (int i = 0; i < Format::kHalves; ++i) {
    uint16_t half;
    __builtin_memcpy(&half, p + 2 * i, sizeof half);
    factors[i] = S::one_half(half);
  }
  return Format::template weights<S>(p, factors);
}

/// Adds the last n < 32 columns of rows of a float type, which are loaded from padded copies.
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

/// Adds n_rows rows to n columns in one pass.
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
      // Once per cache line, prefetch the same columns of the next pass's rows.
      if (at >= asked) {
        for (int r = 0; r < pass.n_next; ++r) __builtin_prefetch(pass.next[r] + asked);
        asked += 64;
      }
      float* to = sum + (first + strip) * kStripColumns;
      typename S::Strip total = fresh ? S::zero() : load_strip<S, Format::kNibbles>(to);
#pragma GCC unroll 4
      for (int r = 0; r < n_rows; ++r) {
        const float* f = factors.of(r, strip);
        total = S::fma(pass.values[r], Format::template weights<S>(pass.rows[r] + at, f), total);
      }
      store_strip<S, Format::kNibbles>(total, to);
    }
  }
  const int left = static_cast<int>(n % kStripColumns);
  if (left > 0) add_tail<S, Format, n_rows>(pass, at, left, fresh, sum + n_strips * kStripColumns);
}

/// Implements DownKernels::add_rows for a type with a Format.
template <class S, class Format>
void add_rows(const DownArgs& args) {
  const Matrix& rows = args.down->rows;
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols) * Format::kBytes / kStripColumns;
  const std::byte* data = rows.data + static_cast<size_t>(args.column_begin / kStripColumns) * Format::kBytes;
  const int64_t n = args.column_end - args.column_begin;
  for_each_pass(args, data, stride, [&](const DownPass& pass, int n_rows, int first) {
    const bool fresh = args.fresh && first == 0;
    static_assert(kDownRows == 4);
    if (n_rows == 4) add_pass<S, Format, 4>(pass, n, fresh, args.sum);
    if (n_rows == 3) add_pass<S, Format, 3>(pass, n, fresh, args.sum);
    if (n_rows == 2) add_pass<S, Format, 2>(pass, n, fresh, args.sum);
    if (n_rows == 1) add_pass<S, Format, 1>(pass, n, fresh, args.sum);
  });
}

/// Implements DownKernels::dequantize for a type with a Format.
template <class S, class Format>
void dequantize_strips(const Matrix& rows, int64_t row, int64_t column, int64_t n, float* out) {
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols) * Format::kBytes / kStripColumns;
  const std::byte* at = rows.data + static_cast<size_t>(row) * stride +
                        static_cast<size_t>(column / kStripColumns) * Format::kBytes;
  for (; n >= kStripColumns; n -= kStripColumns, at += Format::kBytes, out += kStripColumns) {
    store_strip<S, Format::kNibbles>(one_strip<S, Format>(at), out);
  }
  if (n == 0) return;
  std::byte bytes[Format::kBytes] = {};
  float floats[kStripColumns];
  __builtin_memcpy(bytes, at, static_cast<size_t>(n) * (Format::kBytes / kStripColumns));
  S::store(one_strip<S, Format>(bytes), floats);
  __builtin_memcpy(out, floats, static_cast<size_t>(n) * sizeof(float));
}

/// The address of column `column` in a row of whole blocks.
template <class Block>
[[gnu::always_inline]] inline const std::byte* block_at(const Matrix& rows, int64_t row, int64_t column) {
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols / Block::kElems) * sizeof(Block);
  return rows.data + static_cast<size_t>(row) * stride +
         static_cast<size_t>(column / Block::kElems) * sizeof(Block);
}

/// Implements DownKernels::dequantize for other types.
template <class S, class Block>
void dequantize_blocks(const Matrix& rows, int64_t row, int64_t column, int64_t n, float* out) {
  const std::byte* at = block_at<Block>(rows, row, column);
  for (int64_t c = 0; c < n; c += Block::kElems, at += sizeof(Block)) {
    for_each_strip<S, Block>(at, [&](int strip, const typename S::Strip& weights) {
      S::store(weights, out + c + strip * kStripColumns);
    });
  }
}

/// Implements DownKernels::add_rows for types without a Format, one row at a time. Prefetches the row after
/// the next one.
template <class S, class Block>
void add_block_rows(const DownArgs& args) {
  const Matrix& rows = args.down->rows;
  const int64_t n = args.column_end - args.column_begin;
  for (int i = 0; i < args.n; ++i) {
    const std::byte* at = block_at<Block>(rows, args.ids[i], args.column_begin);
    const std::byte* next = block_at<Block>(rows, args.ids[i + 2 < args.n ? i + 2 : i], args.column_begin);
    const bool fresh = args.fresh && i == 0;
    for (int64_t c = 0; c < n; c += Block::kElems, at += sizeof(Block), next += sizeof(Block)) {
      for (size_t b = 0; b < sizeof(Block); b += 64) __builtin_prefetch(next + b);
      for_each_strip<S, Block>(at, [&](int strip, const typename S::Strip& weights) {
        float* to = args.sum + c + strip * kStripColumns;
        S::store(S::fma(args.values[i], weights, fresh ? S::zero() : S::load(to)), to);
      });
    }
  }
}

}  // namespace hearth
