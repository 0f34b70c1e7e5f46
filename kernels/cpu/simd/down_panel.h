// Multiplies a panel of dequantized weights by the values of many tokens, for any vector ISA.
//
// While the neurons of a token are added, the token's sums of some columns stay in registers. So each vector
// of weights takes one load and one multiply-add. Neurons whose bit in DownPanelArgs::wanted is not set are
// skipped.
#pragma once

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/simd/down_strips.h"

namespace hearth {

/// Adds the neurons whose bit in `wanted` is set to n_strips strips of one token. weights: rows that are
/// kPanelWidth floats apart and begin at the first of these strips. values: one for each set bit of `wanted`.
template <class S, int n_strips>
[[gnu::always_inline]] inline void sum_wanted(uint64_t wanted, const float* weights, const float* values,
                                              typename S::Strip* sum) {
  for (; wanted != 0; wanted &= wanted - 1, ++values) {
    const float* row = weights + __builtin_ctzll(wanted) * kPanelWidth;
#pragma GCC unroll 8
    for (int k = 0; k < n_strips; ++k) sum[k] = S::fma(*values, S::load(row + k * kStripColumns), sum[k]);
  }
}

/// Adds one token's wanted neurons of a group of coded columns.
template <class S, int n_strips>
[[gnu::always_inline]] inline void sum_group(const DownPanelArgs& args, uint64_t wanted, const float* values,
                                             int column, float* sums) {
  typename S::Strip dot[n_strips];
  for (int k = 0; k < n_strips; ++k) dot[k] = S::zero();
  sum_wanted<S, n_strips>(wanted, args.weights + column, values, dot);
  float total = 0.0f;
  for (int i = 0; i < __builtin_popcountll(wanted); ++i) total += values[i];
  for (int k = 0; k < n_strips; ++k) {
    const int at = column + k * kStripColumns;
    typename S::Strip sum =
        S::fma_strips(S::load(args.scales + at), dot[k], S::load(sums + k * kStripColumns));
    if (args.mins != nullptr) sum = S::fma(total, S::load(args.mins + at), sum);
    S::store(sum, sums + k * kStripColumns);
  }
}

/// Implements DownKernels::add_panel.
template <class S>
void add_panel(const DownPanelArgs& args) {
  constexpr int kStrips = S::kSumStrips;
  constexpr int kColumns = kStrips * kStripColumns;
  static_assert(kPanelWidth % kColumns == 0);
  const auto below = [](int bit) { return bit == 64 ? ~uint64_t{0} : (uint64_t{1} << bit) - 1; };
  for (int column = 0; column < kPanelWidth; column += kColumns) {
    const float* values = args.values;
    for (int t = 0; t < args.n_tokens; ++t) {
      const uint64_t wanted = args.wanted[t];
      float* sums = args.sums + int64_t{t} * kPanelWidth + column;
      if (args.scales != nullptr) {
        const uint64_t before = wanted & below(args.group_begin);
        const uint64_t group = wanted & below(args.group_end) & ~before;
        if (group != 0) {
          sum_group<S, kStrips>(args, group, values + __builtin_popcountll(before), column, sums);
        }
      } else if (wanted != 0) {
        typename S::Strip sum[kStrips];
        for (int k = 0; k < kStrips; ++k) sum[k] = S::load(sums + k * kStripColumns);
        sum_wanted<S, kStrips>(wanted, args.weights + column, values, sum);
        for (int k = 0; k < kStrips; ++k) S::store(sum[k], sums + k * kStripColumns);
      }
      values += __builtin_popcountll(wanted);
    }
  }
}

/// Implements DownKernels::add.
template <class S>
void add_sums(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kStripColumns <= n; i += kStripColumns)
    S::store(S::add(S::load(to + i), S::load(from + i)), to + i);
  for (; i < n; ++i) to[i] += from[i];
}

/// Implements DownKernels::select. S::not_below compares 32 scores.
template <class S>
void select_bits(const float* values, const float* sizes, int64_t n, float at_least, uint64_t* bits) {
  int64_t j = 0;
  for (; j + 64 <= n; j += 64, ++bits) {
    const uint64_t low = S::not_below(values + j, sizes == nullptr ? nullptr : sizes + j, at_least);
    const uint64_t high =
        S::not_below(values + j + 32, sizes == nullptr ? nullptr : sizes + j + 32, at_least);
    *bits = low | (high << 32);
  }
  if (j == n) return;
  uint64_t word = 0;
  for (int64_t i = j; i < n; ++i) {
    const float score = sizes == nullptr ? values[i] : __builtin_fabsf(values[i]) * sizes[i];
    word |= uint64_t{!(score < at_least)} << (i - j);
  }
  *bits = word;
}

}  // namespace hearth
