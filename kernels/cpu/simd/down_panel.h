// A panel of dequantised weights times the values of many tokens, for any vector ISA.
//
// Every token's sums of some columns stay in registers while the neurons that it wants pass by: one load and
// one multiply-add per vector. What a token does not want costs it nothing.
#pragma once

#include "kernels/cpu/down_kernels.h"
#include "kernels/cpu/simd/down_strips.h"

namespace hearth {

/// n_strips strips of one token: weights [.., kPanelWidth] from the first of them on.
template <class S, int n_strips>
[[gnu::always_inline]] inline void sum_wanted(uint64_t wanted, const float* weights, const float* values,
                                              typename S::Strip* sum) {
  for (; wanted != 0; wanted &= wanted - 1) {
    const int i = __builtin_ctzll(wanted);
    const float* row = weights + i * kPanelWidth;
#pragma GCC unroll 8
    for (int k = 0; k < n_strips; ++k) sum[k] = S::fma(values[i], S::load(row + k * kStripColumns), sum[k]);
  }
}

/// DownKernels::add_panel.
template <class S>
void add_panel(const DownPanelArgs& args) {
  constexpr int kStrips = S::kSumStrips;
  constexpr int kColumns = kStrips * kStripColumns;
  static_assert(kPanelWidth % kColumns == 0);
  const bool coded = args.scales != nullptr;
  const uint64_t group =
      coded ? (args.group_end - args.group_begin == 64
                   ? ~uint64_t{0}
                   : ((uint64_t{1} << (args.group_end - args.group_begin)) - 1) << args.group_begin)
            : ~uint64_t{0};
  for (int column = 0; column < kPanelWidth; column += kColumns) {
    for (int t = 0; t < args.n_tokens; ++t) {
      const uint64_t wanted = args.wanted[static_cast<size_t>(t) * args.wanted_stride] & group;
      if (wanted == 0) continue;
      const float* values = args.values + t * args.values_stride;
      float* sums = args.sums + int64_t{t} * kPanelWidth + column;
      typename S::Strip sum[kStrips];
      if (!coded) {
        for (int k = 0; k < kStrips; ++k) sum[k] = S::load(sums + k * kStripColumns);
        sum_wanted<S, kStrips>(wanted, args.weights + column, values, sum);
        for (int k = 0; k < kStrips; ++k) S::store(sum[k], sums + k * kStripColumns);
        continue;
      }
      for (int k = 0; k < kStrips; ++k) sum[k] = S::zero();
      sum_wanted<S, kStrips>(wanted, args.weights + column, values, sum);
      float total = 0.0f;
      for (uint64_t w = wanted; w != 0; w &= w - 1) total += values[__builtin_ctzll(w)];
      for (int k = 0; k < kStrips; ++k) {
        const int at = column + k * kStripColumns;
        typename S::Strip all =
            S::fma_strips(S::load(args.scales + at), sum[k], S::load(sums + k * kStripColumns));
        if (args.mins != nullptr) all = S::fma(total, S::load(args.mins + at), all);
        S::store(all, sums + k * kStripColumns);
      }
    }
  }
}

/// DownKernels::add.
template <class S>
void add_sums(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kStripColumns <= n; i += kStripColumns)
    S::store(S::add(S::load(to + i), S::load(from + i)), to + i);
  for (; i < n; ++i) to[i] += from[i];
}

/// DownKernels::select. S::not_below compares 32 scores.
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
