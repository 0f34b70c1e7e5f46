// Adds neurons' contributions to integer sums, for any vector ISA. See kernels/cpu/isa/down_kernels.h.
//
// Each contribution is divided into two parts (SumParts). The parts are added up in scratch memory, in whole
// strips. The scratch is added to the sums before a part could overflow. S is a class of strips
// (down_strips.h) that also has operations on bit patterns, because a strip of parts holds bit patterns and
// not floats.
#pragma once

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/simd/down_coded.h"
#include "kernels/cpu/simd/down_rows.h"
#include "kernels/cpu/simd/down_terms.h"
#include "kernels/neuron_sums.h"

namespace hearth {

[[gnu::always_inline]] inline void add_exactly(float value, const float* weights, int64_t n, int64_t* sums) {
  if (value == 0.0f) return;
  for (int64_t i = 0; i < n; ++i) sums[i] += contribution(value, weights[i]);
}

/// The sums of a call's contributions, in two parts.
struct PartSums {
  float* high;        // [n_columns] bit patterns
  float* low;         // [n_columns]
  int64_t* sums;      // [n_columns]
  int64_t n_columns;  // whole strips only
  uint32_t n = 0;     // contributions since the last flush; 0: the scratch is not initialized

  /// Flushes if n_more contributions per column might not fit.
  [[gnu::always_inline]] void make_room(int n_more) {
    if (n + static_cast<uint32_t>(n_more) > SumParts::kMost) flush();
  }
  [[gnu::always_inline]] void flush() {
    if (n == 0) return;
    for (int64_t c = 0; c < n_columns; ++c) {
      uint32_t parts[2];
      __builtin_memcpy(&parts[0], high + c, sizeof(float));
      __builtin_memcpy(&parts[1], low + c, sizeof(float));
      sums[c] += SumParts::units(parts[0], parts[1], n);
    }
    n = 0;
  }
};

/// Adds the contributions of n_rows rows to the strip of columns that begins at `column`. weights_of(r)
/// returns the weights of row r.
template <class S, bool nibbles, class WeightsOf>
[[gnu::always_inline]] inline void sum_strip(const PartSums& parts, int64_t column, const float* values,
                                             int n_rows, WeightsOf&& weights_of) {
  using Strip = typename S::Strip;
  const Strip shift = S::all(SumParts::kHighShift), both_shifts = S::all(SumParts::kBothShifts);
  const bool fresh = parts.n == 0;
  const Strip high_before = fresh ? S::zero() : load_strip<S, nibbles>(parts.high + column);
  const Strip low_before = fresh ? S::zero() : load_strip<S, nibbles>(parts.low + column);
  Strip high = high_before, low = low_before, differing = S::zero();
#pragma GCC unroll 4
  for (int r = 0; r < n_rows; ++r) {
    const Strip weights = weights_of(r);
    const Strip above = S::fma(values[r], weights, shift);
    differing = S::or_differing(differing, above, shift);
    low = S::add_bits(low, S::fma(values[r], weights, S::sub(both_shifts, above)));
    high = S::add_bits(high, above);
  }
  if (S::exponents(differing)) [[unlikely]] {
    // At least one product is too large for the parts, so start again from the previous sums. Now add rows
    // with such products to the exact sums, and add zeros to the parts for these rows.
    high = high_before;
    low = low_before;
    for (int r = 0; r < n_rows; ++r) {
      const Strip weights = weights_of(r);
      const Strip above = S::fma(values[r], weights, shift);
      if (S::exponents(S::or_differing(S::zero(), above, shift))) {
        float exact[kStripColumns];
        store_strip<S, nibbles>(weights, exact);
        add_exactly(values[r], exact, kStripColumns, parts.sums + column);
        high = S::add_bits(high, S::all_bits(SumParts::kHighBits));
        low = S::add_bits(low, S::all_bits(SumParts::kLowBits));
      } else {
        low = S::add_bits(low, S::fma(values[r], weights, S::sub(both_shifts, above)));
        high = S::add_bits(high, above);
      }
    }
  }
  store_strip<S, nibbles>(high, parts.high + column);
  store_strip<S, nibbles>(low, parts.low + column);
}

/// Adds columns [begin, end) of one row, weight by weight. `dequantize` is DownKernels::dequantize.
template <auto dequantize>
void add_row_exactly(const Matrix& rows, int32_t id, float value, int64_t begin, int64_t end, int64_t* sums) {
  float weights[kDownChunk];
  for (int64_t c = begin; c < end; c += kDownChunk) {
    const int64_t n = end - c < kDownChunk ? end - c : kDownChunk;
    dequantize(rows, id, c, n, weights);
    add_exactly(value, weights, n, sums + (c - begin));
  }
}

/// Calls add_pass(pass, number of rows) for kDownRows rows at a time, and then for the remaining rows.
template <class AddPass>
[[gnu::always_inline]] inline void for_each_pass(const DownSumsArgs& args, const std::byte* data,
                                                 size_t stride, PartSums& parts, AddPass&& add_pass) {
  for_each_pass(args, data, stride, [&](const DownPass& pass, int n_rows, int /*first*/) {
    parts.make_room(n_rows);
    add_pass(pass, n_rows);
    parts.n += static_cast<uint32_t>(n_rows);
  });
  parts.flush();
}

[[gnu::always_inline]] inline PartSums parts_of(const DownSumsArgs& args) {
  const int64_t n = args.column_end - args.column_begin;
  return {args.parts, args.parts + n, args.sums, n / kStripColumns * kStripColumns};
}

/// One pass of n_rows rows over n_strips strips.
template <class S, class Format, int n_rows>
void sum_pass(const DownPass& pass, const PartSums& parts) {
  const int64_t n_strips = parts.n_columns / kStripColumns;
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
      sum_strip<S, Format::kNibbles>(parts, (first + strip) * kStripColumns, pass.values, n_rows, [&](int r) {
        return Format::template weights<S>(pass.rows[r] + at, factors.of(r, strip));
      });
    }
  }
}

/// Implements DownSumsKernels::add_rows for a type with a Format.
template <class S, class Format>
void sum_rows(const DownSumsArgs& args) {
  const Matrix& rows = args.down->rows;
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols) * Format::kBytes / kStripColumns;
  const std::byte* data = rows.data + static_cast<size_t>(args.column_begin / kStripColumns) * Format::kBytes;
  PartSums parts = parts_of(args);
  for_each_pass(args, data, stride, parts, [&](const DownPass& pass, int n_rows) {
    static_assert(kDownRows == 4);
    if (n_rows == 4) sum_pass<S, Format, 4>(pass, parts);
    if (n_rows == 3) sum_pass<S, Format, 3>(pass, parts);
    if (n_rows == 2) sum_pass<S, Format, 2>(pass, parts);
    if (n_rows == 1) sum_pass<S, Format, 1>(pass, parts);
  });
  const int64_t whole_end = args.column_begin + parts.n_columns;
  if (whole_end == args.column_end) return;
  for (int i = 0; i < args.n; ++i) {
    add_row_exactly<dequantize_strips<S, Format>>(rows, args.ids[i], args.values[i], whole_end,
                                                  args.column_end, args.sums + parts.n_columns);
  }
}

/// One pass over whole blocks: block b of all rows, then block b + 1 of all rows.
template <class S, class Block>
void sum_block_pass(const DownPass& pass, int n_rows, const PartSums& parts) {
  const int64_t n_blocks = parts.n_columns / Block::kElems;
  BlockQuants<Block> quants[kDownRows];
  for (int64_t b = 0; b < n_blocks; ++b) {
    const size_t at = static_cast<size_t>(b) * sizeof(Block);
    for (int r = 0; r < pass.n_next; ++r) {
      for (size_t line = 0; line < sizeof(Block); line += 64) __builtin_prefetch(pass.next[r] + at + line);
    }
    for (int r = 0; r < n_rows; ++r) unpack_block<S, Block>(pass.rows[r] + at, quants[r]);
    for (int strip = 0; strip < Block::kElems / kStripColumns; ++strip) {
      sum_strip<S, false>(parts, b * Block::kElems + strip * kStripColumns, pass.values, n_rows,
                          [&](int r) { return strip_of<S, Block>(quants[r], strip); });
    }
  }
}

/// Implements DownSumsKernels::add_rows for other types.
template <class S, class Block>
void sum_block_rows(const DownSumsArgs& args) {
  const Matrix& rows = args.down->rows;
  const size_t stride = rows.row_stride != 0
                            ? rows.row_stride
                            : static_cast<size_t>(rows.n_cols / Block::kElems) * sizeof(Block);
  const std::byte* data = block_at<Block>(rows, 0, args.column_begin);
  PartSums parts = parts_of(args);
  for_each_pass(args, data, stride, parts,
                [&](const DownPass& pass, int n_rows) { sum_block_pass<S, Block>(pass, n_rows, parts); });
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

/// Adds the n neurons of one group. Prefetches the n_next neurons of the next group.
template <class S, int bits>
void sum_coded_group(const DownSumsArgs& args, const PartSums& parts, int first, int n, int n_next) {
  const CodedColumns& coded = args.down->coded;
  const typename S::Values table = code_values<S>(coded);
  const int32_t* ids = args.ids + first;
  const auto codes_of = [&](int i) { return coded.codes + static_cast<size_t>(ids[i]) * coded.stride; };
  constexpr int64_t kLineColumns = 64 * 8 / bits;
  const auto weights_of = [&](const GroupFactors<S, bits>& factors, int i, int64_t column) {
    return factors.weights(code_strip<S, bits>(codes_of(i), column / kStripColumns, table));
  };
  for (int64_t c = 0; c < parts.n_columns; c += kStripColumns) {
    const int64_t column = args.column_begin + c;
    if (c % kLineColumns == 0) {
      for (int i = n; i < n + n_next; ++i) __builtin_prefetch(codes_of(i) + column * bits / 8);
    }
    const GroupFactors<S, bits> factors(coded, ids[0] / coded.group, column);
    sum_strip<S, bits == 4>(parts, c, args.values + first, n,
                            [&](int i) { return weights_of(factors, i, column); });
  }
  // The last columns may not fill a strip. Codes and factors are padded to a whole strip, but sums are not.
  const int64_t column = args.column_begin + parts.n_columns, left = args.column_end - column;
  if (left == 0) return;
  const GroupFactors<S, bits> factors(coded, ids[0] / coded.group, column);
  for (int i = 0; i < n; ++i) {
    float weights[kStripColumns];
    store_strip<S, bits == 4>(weights_of(factors, i, column), weights);
    add_exactly(args.values[first + i], weights, left, args.sums + parts.n_columns);
  }
}

/// Implements DownSumsKernels::add_coded.
template <class S>
void sum_coded(const DownSumsArgs& args) {
  const int group = args.down->coded.group;
  const auto group_end = [&](int i) {
    if (i == args.n) return i;
    const int32_t limit = (args.ids[i] / group + 1) * group;
    while (i < args.n && args.ids[i] < limit) ++i;
    return i;
  };
  PartSums parts = parts_of(args);
  int end = group_end(0);
  for (int first = 0; first < args.n;) {
    const int next_end = group_end(end), n = end - first;
    parts.make_room(n);
    if (args.down->coded.bits == 4) {
      sum_coded_group<S, 4>(args, parts, first, n, next_end - end);
    } else {
      sum_coded_group<S, 8>(args, parts, first, n, next_end - end);
    }
    parts.n += static_cast<uint32_t>(n);
    first = end;
    end = next_end;
  }
  parts.flush();
}

/// Implements DownSumsKernels::dequantize_coded.
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

/// Implements DownSumsKernels::add_panel.
template <class S>
void sum_panel(const PanelSumsArgs& args) {
  const float* values = args.values;
  for (int t = 0; t < args.n_tokens; ++t) {
    int64_t* sums = args.sums + t * args.stride;
    int n = 0;
    const float* rows[kPanelNeurons];
    for (uint64_t left = args.wanted[t]; left != 0; left &= left - 1) {
      rows[n++] = args.weights + __builtin_ctzll(left) * kPanelWidth;
    }
    const int64_t whole = args.n_columns / kStripColumns * kStripColumns;
    for (int64_t c = 0; c < whole; c += kStripColumns) {
      float high[kStripColumns], low[kStripColumns];
      PartSums parts{high, low, sums + c, kStripColumns};
      sum_strip<S, false>(parts, 0, values, n, [&](int i) { return S::load(rows[i] + c); });
      parts.n = static_cast<uint32_t>(n);
      parts.flush();
    }
    for (int i = 0; i < n && whole < args.n_columns; ++i) {
      add_exactly(values[i], rows[i] + whole, args.n_columns - whole, sums + whole);
    }
    values += n;
  }
}

/// The functions of an ISA with strips S and terms T (down_terms.h).
template <class S, class T>
constexpr DownSumsKernels down_sums_table() {
  DownSumsKernels table{};
  const auto set = [&](DType type, auto* add_rows) { table.add_rows[static_cast<size_t>(type)] = add_rows; };
  set(DType::kF32, sum_rows<S, StripF32>);
  set(DType::kF16, sum_rows<S, StripF16>);
  set(DType::kBF16, sum_rows<S, StripBF16>);
  set(DType::kNVFP4, sum_block_rows<S, BlockNVFP4>);
  set(DType::kIQ2_XXS, sum_block_rows<S, BlockIQ2_XXS>);
  set(DType::kIQ2_XS, sum_block_rows<S, BlockIQ2_XS>);
  set(DType::kIQ2_S, sum_block_rows<S, BlockIQ2_S>);
  set(DType::kIQ3_XXS, sum_block_rows<S, BlockIQ3_XXS>);
  set(DType::kIQ3_S, sum_block_rows<S, BlockIQ3_S>);
  set(DType::kIQ1_S, sum_block_rows<S, BlockIQ1_S>);
  set(DType::kIQ1_M, sum_block_rows<S, BlockIQ1_M>);
  set(DType::kTQ1_0, sum_block_rows<S, BlockTQ1_0>);
  set(DType::kTQ2_0, sum_block_rows<S, BlockTQ2_0>);
  set_term_kernels<S, T>(table);
  table.add_coded = sum_coded<S>;
  table.add_panel = sum_panel<S>;
  table.dequantize_coded = dequantize_codes<S>;
  return table;
}

}  // namespace hearth
