// Contributions of neurons to integer sums, for any vector ISA. See kernels/cpu/down_sums.h.
//
// S is a class of strips (down_strips.h) that also knows Sums, 32 integers in registers, and adds products to
// them. It may fold a power of two into a neuron's value, which is exact for ordinary values; others, and
// columns behind the last whole strip, go through contribution() one by one.
#pragma once

#include "kernels/cpu/down_sums.h"
#include "kernels/cpu/simd/down_coded.h"
#include "kernels/cpu/simd/down_rows.h"
#include "kernels/neuron_sums.h"

namespace hearth {

/// Whether a value times any power of two down to 2^-14 and up to 2^36 is exact and finite, with room to
/// spare. All values that are not zero are in practice.
[[gnu::always_inline]] inline bool is_ordinary(float value) {
  const float size = __builtin_fabsf(value);
  return size >= 0x1p-100f && size < 0x1p64f;
}

[[gnu::always_inline]] inline void add_exactly(float value, const float* weights, int64_t n, int64_t* sums) {
  if (value == 0.0f) return;
  for (int64_t i = 0; i < n; ++i) sums[i] += contribution(value, weights[i]);
}

/// Columns [begin, end) of one row, one by one. dequantize is that of DownKernels.
template <auto dequantize>
void add_row_exactly(const Matrix& rows, int32_t id, float value, int64_t begin, int64_t end, int64_t* sums) {
  float weights[kDownChunk];
  for (int64_t c = begin; c < end; c += kDownChunk) {
    const int64_t n = end - c < kDownChunk ? end - c : kDownChunk;
    dequantize(rows, id, c, n, weights);
    add_exactly(value, weights, n, sums + (c - begin));
  }
}

/// Calls add_pass(pass, number of rows) with kDownRows rows of ordinary values at a time, or what is left;
/// add_one(place) with the others.
template <class S, class AddPass, class AddOne>
[[gnu::always_inline]] inline void for_each_pass(const DownSumsArgs& args, const std::byte* data,
                                                 size_t stride, AddPass&& add_pass, AddOne&& add_one) {
  const auto row_at = [&](int i) { return data + static_cast<size_t>(args.ids[i]) * stride; };
  DownPass pass{};
  for (int i = 0; i < args.n;) {
    int n_rows = 0;
    for (; i < args.n && n_rows < kDownRows; ++i) {
      if (!is_ordinary(args.values[i])) {
        add_one(i);
        continue;
      }
      pass.rows[n_rows] = row_at(i);
      pass.values[n_rows++] = S::folded(args.values[i]);
    }
    pass.n_next = args.n - i < kDownRows ? args.n - i : kDownRows;
    for (int r = 0; r < pass.n_next; ++r) pass.next[r] = row_at(i + r);
    add_pass(pass, n_rows);
  }
}

/// One pass of n_rows rows over n_strips strips.
template <class S, class Format, int n_rows>
void sum_pass(const DownPass& pass, int64_t n_strips, int64_t* sums) {
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
    factors.take(pass, at + static_cast<size_t>(n_here) * Format::kBytes, strips_from(first + n_here));
    for (int64_t strip = 0; strip < n_here; ++strip, at += Format::kBytes) {
      if (at >= asked) {
        for (int r = 0; r < pass.n_next; ++r) __builtin_prefetch(pass.next[r] + asked);
        asked += 64;
      }
      int64_t* to = sums + (first + strip) * kStripColumns;
      typename S::Sums total = S::template load_sums<Format::kNibbles>(to);
#pragma GCC unroll 4
      for (int r = 0; r < n_rows; ++r) {
        const typename S::Strip weights =
            Format::template weights<S>(pass.rows[r] + at, factors.of(r, strip));
        S::add_product(pass.values[r], weights, total);
      }
      S::template store_sums<Format::kNibbles>(total, n_rows, to);
    }
  }
}

/// DownSumsKernels::add_rows of a type with a Format.
template <class S, class Format>
void sum_rows(const DownSumsArgs& args) {
  const Matrix& rows = args.down->rows;
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols) * Format::kBytes / kStripColumns;
  const std::byte* data = rows.data + static_cast<size_t>(args.column_begin / kStripColumns) * Format::kBytes;
  const int64_t n_strips = (args.column_end - args.column_begin) / kStripColumns;
  const int64_t whole_end = args.column_begin + n_strips * kStripColumns;
  const auto exactly = [&](int i, int64_t begin) {
    add_row_exactly<dequantize_strips<S, Format>>(rows, args.ids[i], args.values[i], begin, args.column_end,
                                                  args.sums + (begin - args.column_begin));
  };
  for_each_pass<S>(
      args, data, stride,
      [&](const DownPass& pass, int n_rows) {
        static_assert(kDownRows == 4);
        if (n_rows == 4) sum_pass<S, Format, 4>(pass, n_strips, args.sums);
        if (n_rows == 3) sum_pass<S, Format, 3>(pass, n_strips, args.sums);
        if (n_rows == 2) sum_pass<S, Format, 2>(pass, n_strips, args.sums);
        if (n_rows == 1) sum_pass<S, Format, 1>(pass, n_strips, args.sums);
      },
      [&](int i) { exactly(i, args.column_begin); });
  if (whole_end == args.column_end) return;
  for (int i = 0; i < args.n; ++i) {
    if (is_ordinary(args.values[i])) exactly(i, whole_end);
  }
}

/// One pass over whole blocks, the rows' blocks side by side.
template <class S, class Block>
void sum_block_pass(const DownPass& pass, int n_rows, int64_t n_blocks, int64_t* sums) {
  BlockQuants<Block> quants[kDownRows];
  for (int64_t b = 0; b < n_blocks; ++b) {
    const size_t at = static_cast<size_t>(b) * sizeof(Block);
    for (int r = 0; r < pass.n_next; ++r) {
      for (size_t line = 0; line < sizeof(Block); line += 64) __builtin_prefetch(pass.next[r] + at + line);
    }
    for (int r = 0; r < n_rows; ++r) unpack_block<S, Block>(pass.rows[r] + at, quants[r]);
    for (int strip = 0; strip < Block::kElems / kStripColumns; ++strip) {
      int64_t* to = sums + b * Block::kElems + strip * kStripColumns;
      typename S::Sums total = S::template load_sums<false>(to);
      for (int r = 0; r < n_rows; ++r) {
        S::add_product(pass.values[r], strip_of<S, Block>(quants[r], strip), total);
      }
      S::template store_sums<false>(total, n_rows, to);
    }
  }
}

/// DownSumsKernels::add_rows of other types.
template <class S, class Block>
void sum_block_rows(const DownSumsArgs& args) {
  const Matrix& rows = args.down->rows;
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols / Block::kElems) * sizeof(Block);
  const std::byte* data = block_at<Block>(rows, 0, args.column_begin);
  const int64_t n_blocks = (args.column_end - args.column_begin) / Block::kElems;
  for_each_pass<S>(
      args, data, stride,
      [&](const DownPass& pass, int n_rows) { sum_block_pass<S, Block>(pass, n_rows, n_blocks, args.sums); },
      [&](int i) {
        add_row_exactly<dequantize_blocks<S, Block>>(rows, args.ids[i], args.values[i], args.column_begin,
                                                     args.column_end, args.sums);
      });
}

/// The factors of 32 columns of a group of coded columns.
template <class S, int bits>
struct GroupFactors {
  typename S::Strip scales, mins;
  bool has_mins;
  [[gnu::always_inline]] GroupFactors(const CodedColumns& coded, int64_t group, int64_t column)
      : scales(factor_strip<S, bits>(coded, coded.scales, group, column)),
        mins(S::zero()),
        has_mins(coded.mins != nullptr) {
    if (has_mins) mins = factor_strip<S, bits>(coded, coded.mins, group, column);
  }
  [[gnu::always_inline]] typename S::Strip weights(typename S::Strip codes) const {
    const typename S::Strip scaled = S::mul(codes, scales);
    return has_mins ? S::add(scaled, mins) : scaled;
  }
};

/// One group's n neurons; the next n_next are asked for.
template <class S, int bits>
void sum_coded_group(const DownSumsArgs& args, int first, int n, int n_next) {
  const CodedColumns& coded = args.down->coded;
  const typename S::Values table = code_values<S>(coded);
  const int32_t* ids = args.ids + first;
  const auto codes_of = [&](int i) { return coded.codes + static_cast<size_t>(ids[i]) * coded.stride; };
  const int64_t begin = args.column_begin / kStripColumns;
  const int64_t end = (args.column_end + kStripColumns - 1) / kStripColumns;
  constexpr int64_t kLineStrips = 64 * 8 / (bits * kStripColumns);
  for (int64_t strip = begin; strip < end; ++strip) {
    if ((strip - begin) % kLineStrips == 0) {
      for (int i = n; i < n + n_next; ++i) {
        __builtin_prefetch(codes_of(i) + static_cast<size_t>(strip) * kStripColumns * bits / 8);
      }
    }
    const int64_t left = args.column_end - strip * kStripColumns;
    int64_t* to = args.sums + (strip - begin) * kStripColumns;
    const GroupFactors<S, bits> factors(coded, ids[0] / coded.group, strip * kStripColumns);
    int64_t last[kStripColumns];
    int64_t* at = left < kStripColumns ? last : to;
    if (at == last) __builtin_memset(last, 0, sizeof last);
    typename S::Sums total = S::template load_sums<bits == 4>(at);
    int n_ordinary = 0;
    for (int i = 0; i < n; ++i) {
      const float value = args.values[first + i];
      if (!is_ordinary(value)) continue;
      ++n_ordinary;
      S::add_product(S::folded(value), factors.weights(code_strip<S, bits>(codes_of(i), strip, table)),
                     total);
    }
    S::template store_sums<bits == 4>(total, n_ordinary, at);
    for (int i = 0; i < n; ++i) {
      const float value = args.values[first + i];
      if (is_ordinary(value)) continue;
      float weights[kStripColumns];
      store_strip<S, bits == 4>(factors.weights(code_strip<S, bits>(codes_of(i), strip, table)), weights);
      add_exactly(value, weights, kStripColumns, at);
    }
    if (at == last) {
      for (int64_t c = 0; c < left; ++c) to[c] += last[c];
    }
  }
}

/// DownSumsKernels::add_coded.
template <class S>
void sum_coded(const DownSumsArgs& args) {
  const int group = args.down->coded.group;
  const auto group_end = [&](int i) {
    if (i == args.n) return i;
    const int32_t limit = (args.ids[i] / group + 1) * group;
    while (i < args.n && args.ids[i] < limit) ++i;
    return i;
  };
  int end = group_end(0);
  for (int first = 0; first < args.n;) {
    const int next_end = group_end(end);
    if (args.down->coded.bits == 4) {
      sum_coded_group<S, 4>(args, first, end - first, next_end - end);
    } else {
      sum_coded_group<S, 8>(args, first, end - first, next_end - end);
    }
    first = end;
    end = next_end;
  }
}

/// DownSumsKernels::dequantize_coded.
template <class S>
void dequantize_codes(const CodedColumns& coded, int64_t neuron, int64_t column, int64_t n, float* out) {
  const std::byte* codes = coded.codes + static_cast<size_t>(neuron) * coded.stride;
  const typename S::Values table = code_values<S>(coded);
  const int64_t group = neuron / coded.group;
  for (int64_t c = column; c < column + n; c += kStripColumns, out += kStripColumns) {
    if (coded.bits == 4) {
      const GroupFactors<S, 4> factors(coded, group, c);
      store_strip<S, true>(factors.weights(code_strip<S, 4>(codes, c / kStripColumns, table)), out);
    } else {
      const GroupFactors<S, 8> factors(coded, group, c);
      store_strip<S, false>(factors.weights(code_strip<S, 8>(codes, c / kStripColumns, table)), out);
    }
  }
}

/// DownSumsKernels::add_panel.
template <class S>
void sum_panel(const PanelSumsArgs& args) {
  const float* values = args.values;
  for (int t = 0; t < args.n_tokens; ++t) {
    int64_t* sums = args.sums + t * args.stride;
    const uint64_t wanted = args.wanted[t];
    const int n = __builtin_popcountll(wanted);
    const float* own = values;
    values += n;
    bool ordinary = true;
    for (int i = 0; i < n; ++i) ordinary &= is_ordinary(own[i]);
    const int64_t whole = ordinary ? args.n_columns / kStripColumns * kStripColumns : 0;
    for (int64_t c = 0; c < whole; c += kStripColumns) {
      typename S::Sums total = S::template load_sums<false>(sums + c);
      const float* value = own;
      for (uint64_t left = wanted; left != 0; left &= left - 1, ++value) {
        const float* row = args.weights + __builtin_ctzll(left) * kPanelWidth;
        S::add_product(S::folded(*value), S::load(row + c), total);
      }
      S::template store_sums<false>(total, n, sums + c);
    }
    if (whole == args.n_columns) continue;
    const float* value = own;
    for (uint64_t left = wanted; left != 0; left &= left - 1, ++value) {
      const float* row = args.weights + __builtin_ctzll(left) * kPanelWidth;
      add_exactly(*value, row + whole, args.n_columns - whole, sums + whole);
    }
  }
}

template <class S>
constexpr DownSumsKernels down_sums_table() {
  return {{sum_rows<S, StripF32>, sum_rows<S, StripF16>, sum_rows<S, StripBF16>, sum_rows<S, StripQ4_0>,
           sum_rows<S, StripQ4_1>, sum_block_rows<S, BlockQ5_0>, sum_block_rows<S, BlockQ5_1>,
           sum_rows<S, StripQ8_0>, sum_block_rows<S, BlockQ2_K>, sum_block_rows<S, BlockQ3_K>,
           sum_block_rows<S, BlockQ4_K>, sum_block_rows<S, BlockQ5_K>, sum_block_rows<S, BlockQ6_K>,
           sum_rows<S, StripIQ4_NL>, sum_block_rows<S, BlockIQ4_XS>},
          sum_coded<S>,
          sum_panel<S>,
          dequantize_codes<S>};
}

}  // namespace hearth
