// One token's products where unpacking is what takes the time: blocks are multiplied as they are read,
// without a panel in memory.
//
// Decode reads every weight once. Writing bytes to a panel and reading them back is then a fifth of the
// instructions, and nibbles need not be moved to where the panel wants them. The same products and sums in
// the same order as by way of a panel, hence the same bits. From the cache, Q4_0, Zen 5: 40 GB/s instead of
// 26; from memory 24 instead of 20.
#pragma once

#include "kernels/cpu/simd/matmul_panel.h"
#include "kernels/cpu/simd/matmul_unpack_runs.h"

namespace hearth {

/// 256 columns of one token. kFused: whether there is such a loop for this type.
template <class S, class Block>
struct OneToken {
  static constexpr bool kFused = false;
};

template <class S>
requires requires { &S::dot_nibbles_16; }
struct OneToken<S, BlockQ4_0> {
  static constexpr bool kFused = true;
  using Int = typename S::Int;
  using Float = typename S::Float;

  // The factor 16 of the integer sum leaves with the scale; both are powers of two, so no rounding changes.
  [[gnu::always_inline]] static Float term(const Int* raw, Float scale, const ActivationPlanes& x, int span) {
    const Int offset = S::template shift_left<7>(S::broadcast_dword(x.int_sum + span * 4));
    const Int sum = S::sub(S::dot_nibbles_16(raw, x.quants + span * kSpanBytes), offset);
    return S::mul(S::mul(S::to_float(sum), S::mul(scale, S::floats(1.0f / 16))),
                  S::broadcast_float(x.scale + span * 4));
  }

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ4_0>& ahead) {
    Int raw[36];
    unroll<4>([&]<int pair>() {
      // A pair of blocks is 9 dwords, which come in fours.
      constexpr int kFrom = (9 * pair + 3) / 4, kTo = (9 * pair + 12) / 4;
      for (int i = kFrom; i < kTo; ++i) S::load_rows(rows, 16 * i, raw + 4 * i);
      const Int* v = raw + 9 * pair;
      Int first[4];
      for (int i = 0; i < 4; ++i) {
        first[i] = S::bit_or(S::template shift_right<16>(v[i]), S::template shift_left<16>(v[i + 1]));
      }
      ahead.ask(2 * pair);
      total = S::add(total, term(first, S::low_half(v[0]), x, 2 * pair));
      ahead.ask(2 * pair + 1);
      total = S::add(total, term(v + 5, S::high_half(v[4]), x, 2 * pair + 1));
    });
    return total;
  }
};

}  // namespace hearth
