// Products of one token, for types where unpacking takes most of the time: blocks are multiplied as they are
// read, without a panel in memory.
//
// Decode reads every weight once, and writing bytes to a panel and reading them back is then a fifth of the
// instructions. Here nibbles need not be moved to their position in a panel either. The products, sums and
// their order are those of the panel, so the bits are too. Measured with Q4_0 on Zen 5: 40 GB/s instead of 26
// from the cache, 24 instead of 20 from memory.
#pragma once

#include "kernels/cpu/simd/matmul_panel.h"
#include "kernels/cpu/simd/matmul_unpack_runs.h"

namespace hearth {

/// Multiplies 256 columns with one token. kFused: whether this type has such a loop.
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

  // The integer sum's factor 16 is removed with the scale; both are powers of two, so no rounding changes.
  [[gnu::always_inline]] static Float term(const Int* raw, Float scale, const ActivationPlanes& x, int span) {
    const Int offset = S::template shift_left<7>(S::broadcast_dword(x.int_sum + span * 4));
    const Int sum = S::sub(S::dot_nibbles_16(raw, x.quants + span * kSpanBytes), offset);
    return S::mul(S::mul(S::to_float(sum), S::mul(scale, S::floats(1.0f / 16))),
                  S::broadcast_float(x.scale + span * 4));
  }

  static Float run(RowBlocks rows, const ActivationPlanes& x, Float total, const Ahead<S, BlockQ4_0>& ahead) {
    Int raw[36];
    unroll<4>([&]<int pair>() {
      // A pair of blocks is 9 dwords, but load_rows() reads four at a time.
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
