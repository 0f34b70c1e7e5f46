// The addresses at which the lanes of a quantized product read activations and store sums.
#pragma once

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_panel.h"

namespace hearth {

/// Returns the planes of token `token`, starting at the first column.
template <class S, class Block>
[[gnu::always_inline]] inline ActivationPlanes planes_of(const MatmulArgs& args, int token) {
  const int64_t n_cols = args.weight->n_cols;
  const size_t stride = activation_row_size(n_cols, S::kQuantBytes);
  // The view is only read here; the cast is needed because ActivationRow is also used for writing.
  const ActivationRow row =
      activation_row(const_cast<std::byte*>(args.quantized) + token * stride, n_cols, S::kQuantBytes);
  const bool halves = Block::kGroup == kActivationHalf;
  return {row.quants, reinterpret_cast<const std::byte*>(row.scale),
          reinterpret_cast<const std::byte*>(halves ? row.half_sum : row.sum),
          reinterpret_cast<const std::byte*>(halves ? row.half_int_sum : row.int_sum), stride};
}

/// Advances the planes by n_spans spans of 32 columns.
template <class S, class Block>
[[gnu::always_inline]] inline void advance(ActivationPlanes& x, int n_spans) {
  constexpr int kParts = kActivationSpan / Block::kGroup;
  x.quants += n_spans * kSpanBytesOf<S>;
  x.scale += n_spans * sizeof(float);
  x.sum += n_spans * kParts * sizeof(float);
  x.int_sum += n_spans * kParts * sizeof(int32_t);
}

/// Returns the planes of the tokens of x from token n on.
[[gnu::always_inline]] inline ActivationPlanes tokens_later(const ActivationPlanes& x, int n) {
  const size_t skipped = static_cast<size_t>(n) * x.stride;
  return {x.quants + skipped, x.scale + skipped, x.sum + skipped, x.int_sum + skipped, x.stride};
}

/// The output columns of the lanes: lane r computes first + r * step. Lanes from n on have no row to compute.
struct Lanes {
  int64_t first;
  int64_t step;
  int n;
  int64_t next;  // `first` of the next lanes, or `first` again if there are none
};

/// Stores a panel's sums in the output, or adds them to the output if args.accumulate is set.
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

}  // namespace hearth
