// Adds quantized rows to integer sums by terms (kernels/quant/neuron_terms.h), for any ISA. See
// kernels/cpu/isa/down_kernels.h.
//
// T is the ISA's class of operations. T::Codes are 32 codes as signed bytes. T::Sums are the high and low
// parts of the sums of 32 columns, in T's own order. Two rows are added at once. For each column, one
// multiply-add instruction computes code * part of the first row plus code * part of the second row, where
// the codes are 16-bit integers, and a part is the high (or low) part of the row's term. S is the ISA's class
// of strips.
#pragma once

#include <cmath>
#include <type_traits>

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/simd/down_rows.h"
#include "kernels/neuron_sums.h"
#include "kernels/quant/neuron_terms.h"

namespace hearth {

/// The number of columns that share a scale in every type.
inline constexpr int kTermColumns = 16;

/// One part (high or low) of the terms of two rows. Each member holds two 16-bit integers: the first row's
/// part is in the low half, and the second row's part is in the high half. `first` is for columns 0..15 of a
/// strip, `second` for columns 16..31.
struct TermPair {
  int32_t first, second;
};

/// Adds the contributions of a group of columns, weight by weight.
template <class T>
void add_group_exactly(float value, const int8_t* q, int n, float scale, float min, bool has_min,
                       int64_t* sums) {
  if (value == 0.0f) return;
  for (int i = 0; i < n; ++i) {
    float weight = scale * static_cast<float>(q[i]);
    if (has_min) weight += min;
    sums[i] += contribution(value, weight);
  }
}

/// The sums of terms over the neurons of a call, for whole strips of columns.
template <class T>
struct TermSums {
  int32_t *high, *low;  // [n_columns], in T's order within each strip
  int64_t* extra;       // [n_columns / 16] sums of t2
  int64_t* sums;        // [n_columns]
  int64_t n_columns;
  int shift;
  int n = 0;  // neurons since the last flush; 0: the parts are not initialized

  [[gnu::always_inline]] void flush() {
    if (n == 0) return;
    for (int64_t strip = 0; strip < n_columns; strip += kStripColumns) {
      for (int i = 0; i < kStripColumns; ++i) {
        const int column = T::column(i);
        const int64_t units = (int64_t{high[strip + i]} << Terms::kLowBits) + low[strip + i] +
                              extra[(strip + column) / kTermColumns];
        sums[strip + column] += units * (int64_t{1} << shift);
      }
    }
    n = 0;
  }
};

/// One row's codes and terms, 256 columns at a time.
template <class S, class T, class Block>
struct RowTerms {
  static constexpr int kUnits = static_cast<int>(kDownChunk) / Block::kGroup;  // groups per 256 columns
  static constexpr bool kUnpacked = !T::template kDirect<Block> && Block::kElems == kDownChunk;
  struct None {};
  const std::byte* blocks;  // of any alignment, as in a file
  [[no_unique_address]] std::conditional_t<kUnpacked, BlockQuants<Block>, None> quants;

  /// Computes the terms of n_columns columns from `at` on, and the terms of the mins. Returns a bit for each
  /// group whose terms are out of range; such terms are 0.
  [[gnu::always_inline]] uint32_t take(const std::byte* at, int n_columns, float value, int32_t* terms,
                                       int32_t* mins) {
    blocks = at;
    if constexpr (T::template kDirect<Block>) {
      if (n_columns == kDownChunk) [[likely]]
        return T::template terms_of_256<Block>(blocks, value, terms, mins);
    }
    alignas(64) float scale[kUnits] = {}, min[kUnits] = {};
    if constexpr (kUnpacked) {
      unpack_block<S, Block>(at, quants);
      __builtin_memcpy(scale, quants.scale, sizeof scale);
      if constexpr (Block::kHasMin) __builtin_memcpy(min, quants.min, sizeof min);
    } else {
      for (int b = 0; b < n_columns / Block::kElems; ++b) {
        Decoded<Block> decoded;
        decode_block<Block>(at + static_cast<size_t>(b) * sizeof(Block), decoded);
        __builtin_memcpy(scale + b * Decoded<Block>::kGroups, decoded.scale, sizeof decoded.scale);
        if constexpr (Block::kHasMin)
          __builtin_memcpy(min + b * Decoded<Block>::kGroups, decoded.min, sizeof decoded.min);
      }
    }
    uint32_t outside = 0;
    for (int i = 0; i < kUnits; i += 8) {
      outside |= T::eight_terms(value, scale + i, terms + i) << i;
      if constexpr (Block::kHasMin) outside |= T::eight_terms(value, min + i, mins + i) << i;
    }
    return outside;
  }

  [[gnu::always_inline]] typename T::Codes codes(int strip) const {
    if constexpr (kUnpacked) {
      return T::load(quants.q + strip * kStripColumns);
    } else if constexpr (Block::kElems == kStripColumns) {
      return T::template codes<Block>(blocks + static_cast<size_t>(strip) * sizeof(Block));
    } else {
      return T::template codes<Block>(blocks, strip);
    }
  }

  /// Adds the contributions of group i, weight by weight.
  void add_exactly(int i, float value, int64_t* sums) const {
    Decoded<Block> decoded;
    const int block = i / Decoded<Block>::kGroups, group = i % Decoded<Block>::kGroups;
    decode_block<Block>(blocks + static_cast<size_t>(block) * sizeof(Block), decoded);
    add_group_exactly<T>(value, decoded.q + group * Block::kGroup, Block::kGroup, decoded.scale[group],
                         decoded.min[group], Block::kHasMin, sums + i * Block::kGroup);
  }
};

/// Adds n_rows rows, in one pass over the columns.
template <class S, class T, class Block, int n_rows>
void term_pass(const DownPass& pass, const TermSums<T>& to) {
  constexpr int kPairs = (n_rows + 1) / 2, kUnits = RowTerms<S, T, Block>::kUnits;
  constexpr int kStripUnits = kStripColumns / Block::kGroup;  // 1 or 2
  RowTerms<S, T, Block> rows[n_rows];
  alignas(64) int32_t terms[2 * kPairs][kUnits] = {}, high[kPairs][kUnits], low[kPairs][kUnits];
  const bool fresh = to.n == 0;
  size_t asked = 0;
  for (int64_t first = 0; first < to.n_columns; first += kDownChunk) {
    const int n_columns =
        static_cast<int>(to.n_columns - first < kDownChunk ? to.n_columns - first : kDownChunk);
    const size_t begin = static_cast<size_t>(first / Block::kElems) * sizeof(Block);
    const size_t end = static_cast<size_t>((first + n_columns) / Block::kElems) * sizeof(Block);
    for (; asked < end; asked += 64) {
      for (int r = 0; r < pass.n_next; ++r) __builtin_prefetch(pass.next[r] + asked);
    }
    // 1. Compute the terms, including the terms of the mins.
    int64_t* const extra = to.extra + first / kTermColumns;
    if (fresh) __builtin_memset(extra, 0, sizeof(int64_t) * kTermColumns);
    for (int r = 0; r < n_rows; ++r) {
      alignas(64) int32_t mins[kUnits];
      const float value = pass.values[r] * TermsOf<Block>::kPower;
      const uint32_t outside = rows[r].take(pass.rows[r] + begin, n_columns, value, terms[r], mins);
      if (outside != 0) [[unlikely]] {
        for (int i = 0; i < n_columns / Block::kGroup; ++i) {
          if ((outside >> i & 1) == 0) continue;
          rows[r].add_exactly(i, pass.values[r], to.sums + first);
          terms[r][i] = mins[i] = 0;
        }
      }
      if constexpr (Block::kHasMin) {
        for (int i = 0; i < kTermColumns; ++i) extra[i] += mins[i * kTermColumns / Block::kGroup];
      }
    }
    for (int p = 0; p < kPairs; ++p) T::pack(terms[2 * p], terms[2 * p + 1], kUnits, high[p], low[p]);
    // 2. Multiply them with the codes.
    for (int strip = 0; strip < n_columns / kStripColumns; ++strip) {
      const int64_t at = first + strip * kStripColumns;
      typename T::Sums sums = fresh ? T::zero() : T::load_sums(to.high + at, to.low + at);
#pragma GCC unroll 2
      for (int p = 0; p < kPairs; ++p) {
        const int other =
            2 * p + 1 < n_rows ? 2 * p + 1 : 2 * p;  // an odd last row is paired with itself, with terms of 0
        T::template add<kStripUnits>(sums, rows[2 * p].codes(strip), rows[other].codes(strip),
                                     high[p] + strip * kStripUnits, low[p] + strip * kStripUnits);
      }
      T::store_sums(sums, to.high + at, to.low + at);
    }
  }
}

/// Implements DownSumsKernels::add_rows for types with terms.
template <class S, class T, class Block>
void sum_terms(const DownSumsArgs& args) {
  const Matrix& matrix = args.down->rows;
  const size_t stride = matrix.row_stride != 0
                            ? matrix.row_stride
                            : static_cast<size_t>(matrix.n_cols / Block::kElems) * sizeof(Block);
  const std::byte* data = block_at<Block>(matrix, 0, args.column_begin);
  const int64_t n = args.column_end - args.column_begin;
  auto* const parts = reinterpret_cast<int32_t*>(args.parts);
  TermSums<T> to{parts,     parts + n, reinterpret_cast<int64_t*>(parts + 2 * n),
                 args.sums, n,         TermsOf<Block>::kShift};
  for_each_pass(args, data, stride, [&](const DownPass& pass, int n_rows, int /*first*/) {
    if (to.n + n_rows > Terms::kMost) to.flush();
    static_assert(kDownRows == 4);
    if (n_rows == 4) term_pass<S, T, Block, 4>(pass, to);
    if (n_rows == 3) term_pass<S, T, Block, 3>(pass, to);
    if (n_rows == 2) term_pass<S, T, Block, 2>(pass, to);
    if (n_rows == 1) term_pass<S, T, Block, 1>(pass, to);
    to.n += n_rows;
  });
  to.flush();
}

/// Implements DownSumsKernels::fill_terms: writes columns [column, column + n) of a row to row `place` of the
/// panels.
template <class T, class Block>
void fill_term_panel(const Matrix& matrix, int64_t row, int64_t column, int64_t n, int place,
                     TermPanel* panels) {
  for (int64_t c = 0; c < n; c += Block::kElems) {
    Decoded<Block> decoded;
    decode_block<Block>(block_at<Block>(matrix, row, column + c), decoded);
    for (int64_t at = c; at < c + Block::kElems; at += kTermColumns) {
      TermPanel& panel = panels[at / kPanelWidth];
      const int64_t own = at % kPanelWidth, group = (at - c) / Block::kGroup;
      panel.scale[own / kTermColumns][place] = decoded.scale[group];
      if constexpr (Block::kHasMin) panel.min[own / kTermColumns][place] = decoded.min[group];
      int16_t* to = panel.codes[place / 2] + 2 * own + place % 2;
      for (int i = 0; i < kTermColumns; ++i) to[2 * i] = decoded.q[at - c + i];
    }
  }
}

/// Implements DownSumsKernels::add_term_panel.
template <class T, class Block>
void sum_term_panel(const TermPanelArgs& args) {
  constexpr int kPairs = kPanelNeurons / 2;
  const TermPanel& panel = *args.panel;
  const float* values = args.values;
  for (int t = 0; t < args.n_tokens; ++t) {
    const uint64_t wanted = args.wanted[t];
    if (wanted == 0) continue;
    alignas(64) float own[kPanelNeurons] = {}, scaled[kPanelNeurons];
    for (uint64_t left = wanted; left != 0; left &= left - 1) own[__builtin_ctzll(left)] = *values++;
    for (int i = 0; i < kPanelNeurons; ++i) scaled[i] = own[i] * TermsOf<Block>::kPower;
    // Collect the pairs of rows in which at least one row's bit in `wanted` is set.
    int pairs[kPairs], n_pairs = 0;
    for (uint64_t left = (wanted | wanted >> 1) & 0x5555555555555555; left != 0; left &= left - 1)
      pairs[n_pairs++] = __builtin_ctzll(left) / 2;
    alignas(64) int32_t high[2][kPairs], low[2][kPairs];
    int64_t extra[2] = {0, 0};
    for (int64_t strip = 0; strip < args.n_columns; strip += kStripColumns) {
      int64_t* const sums = args.sums + t * args.stride + strip;
      for (int half = 0; half < 2; ++half) {
        if (Block::kGroup == kStripColumns && half == 1) {
          __builtin_memcpy(high[1], high[0], sizeof high[0]);
          __builtin_memcpy(low[1], low[0], sizeof low[0]);
          extra[1] = extra[0];
          break;
        }
        const int64_t unit = strip / kTermColumns + half;
        alignas(64) int32_t terms[kPanelNeurons], mins[kPanelNeurons];
        uint64_t outside = 0;
        for (int i = 0; i < kPanelNeurons; i += 8) {
          outside |= uint64_t{T::eight_terms_of(scaled + i, panel.scale[unit] + i, terms + i)} << i;
          if constexpr (Block::kHasMin)
            outside |= uint64_t{T::eight_terms_of(scaled + i, panel.min[unit] + i, mins + i)} << i;
        }
        for (uint64_t left = outside & wanted; left != 0; left &= left - 1) {
          const int i = __builtin_ctzll(left);
          int8_t q[Block::kGroup];
          const int16_t* codes = panel.codes[i / 2] + 2 * (strip + half * kTermColumns) + i % 2;
          for (int c = 0; c < Block::kGroup; ++c) q[c] = static_cast<int8_t>(codes[2 * c]);
          add_group_exactly<T>(own[i], q, Block::kGroup, panel.scale[unit][i],
                               Block::kHasMin ? panel.min[unit][i] : 0.0f, Block::kHasMin,
                               sums + half * kTermColumns);
          terms[i] = mins[i] = 0;
        }
        extra[half] = 0;
        if constexpr (Block::kHasMin) {
          for (uint64_t left = wanted; left != 0; left &= left - 1)
            extra[half] += mins[__builtin_ctzll(left)];
        }
        T::pack_pairs(terms, high[half], low[half]);
      }
      typename T::Sums parts = T::zero();
      for (int i = 0; i < n_pairs; ++i) {
        const int p = pairs[i];
        T::add_pairs(parts, panel.codes[p] + 2 * strip, {high[0][p], high[1][p]}, {low[0][p], low[1][p]});
      }
      alignas(64) int32_t sum_high[kStripColumns], sum_low[kStripColumns];
      T::store_sums(parts, sum_high, sum_low);
      for (int c = 0; c < kStripColumns; ++c) {
        const int64_t units =
            (int64_t{sum_high[c]} << Terms::kLowBits) + sum_low[c] + extra[c / kTermColumns];
        sums[c] += units * (int64_t{1} << TermsOf<Block>::kShift);
      }
    }
  }
}

/// Adds the functions of types with terms to a table.
template <class S, class T>
constexpr void set_term_kernels(DownSumsKernels& table) {
  const auto set = [&]<class Block>(DType type) {
    const auto i = static_cast<size_t>(type);
    table.add_rows[i] = sum_terms<S, T, Block>;
    table.fill_terms[i] = fill_term_panel<T, Block>;
    table.add_term_panel[i] = sum_term_panel<T, Block>;
  };
  set.template operator()<BlockQ4_0>(DType::kQ4_0);
  set.template operator()<BlockQ4_1>(DType::kQ4_1);
  set.template operator()<BlockQ5_0>(DType::kQ5_0);
  set.template operator()<BlockQ5_1>(DType::kQ5_1);
  set.template operator()<BlockQ8_0>(DType::kQ8_0);
  set.template operator()<BlockQ2_K>(DType::kQ2_K);
  set.template operator()<BlockQ3_K>(DType::kQ3_K);
  set.template operator()<BlockQ4_K>(DType::kQ4_K);
  set.template operator()<BlockQ5_K>(DType::kQ5_K);
  set.template operator()<BlockQ6_K>(DType::kQ6_K);
  set.template operator()<BlockIQ4_NL>(DType::kIQ4_NL);
  set.template operator()<BlockIQ4_XS>(DType::kIQ4_XS);
  set.template operator()<BlockMXFP4>(DType::kMXFP4);
}

}  // namespace hearth
