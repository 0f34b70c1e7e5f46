// Adds the products of a span of 32 columns to the float sums of a group of rows, one row per lane.
#pragma once

#include "kernels/cpu/simd/matmul_panel.h"

namespace hearth {

/// Turns a sum of offset weights into the sum of true weights: subtracts offset * sum of the activations.
template <class S, int offset>
[[gnu::always_inline]] inline typename S::Int without_offset(typename S::Int sum, const std::byte* int_sum) {
  static_assert((offset & (offset - 1)) == 0);
  if constexpr (offset == 0) return sum;
  constexpr int kShift = __builtin_ctz(offset == 0 ? 1 : offset);
  return S::sub(sum, S::template shift_left<kShift>(S::broadcast_dword(int_sum)));
}

/// Adds a span to `total`. `sums`, `scale` and `min` are the integer sums, scales and mins of the span's
/// groups.
template <class S, class Block>
[[gnu::always_inline]] inline typename S::Float add_sums(typename S::Float total, const typename S::Int* sums,
                                                         const typename S::Float* scale,
                                                         const typename S::Float* min,
                                                         const ActivationPlanes& x, int span) {
  constexpr int kParts = kActivationSpan / Block::kGroup;
  typename S::Float dot;
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const int g = span * kParts + part;
    const typename S::Int sum = without_offset<S, Block::kOffset>(sums[part], x.int_sum + g * 4);
    typename S::Float term = S::mul(S::to_float(sum), scale[part]);
    if constexpr (Block::kHasMin) {
      term = S::add(term, S::mul(min[part], S::broadcast_float(x.sum + g * 4)));
    }
    dot = part == 0 ? term : S::add(dot, term);
  }
  return S::add(total, S::mul(dot, S::broadcast_float(x.scale + span * 4)));
}

/// Adds a span of a panel to `total`. `quants` are the span's eight vectors.
template <class S, class Block>
[[gnu::always_inline]] inline typename S::Float add_panel_span(typename S::Float total,
                                                               const typename S::Int* quants,
                                                               const typename S::Float* scale,
                                                               const typename S::Float* min,
                                                               const ActivationPlanes& x, int span) {
  constexpr int kParts = kActivationSpan / Block::kGroup;
  typename S::Int sums[kParts];
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    sums[part] = S::template dot_one<Block::kGroup, Block::kLargest>(
        quants + part * (Block::kGroup / 4), x.quants + span * kSpanBytesOf<S>, part * Block::kGroup);
  }
  return add_sums<S, Block>(total, sums, scale, min, x, span);
}

}  // namespace hearth
