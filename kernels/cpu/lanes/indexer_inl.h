// Scores of an indexer (kernels/indexer.h). The source uses the class Lanes and is compiled once per ISA.
// Every lane is one key, so no sum runs across lanes. Included after attention_inl.h; the rules of rows_inl.h
// apply here.
#pragma once

#include "kernels/cpu/lanes/attention_inl.h"

namespace hearth {
namespace {

/// For C times 16 keys, adds the heads [head, head + R) to the scores.
template <int R, int C>
inline void add_heads(const IndexTile& tile, int head, const uint16_t* const* keys, Lanes* scores) {
  Lanes sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = Lanes::all(0.0f);
  }
  const float* q = tile.q + static_cast<int64_t>(head) * tile.head_dim;
  for (int64_t d = 0; d < tile.head_dim; ++d) {
    for (int c = 0; c < C; ++c) {
      const Lanes k = Lanes::load_half(keys[c] + d * tile.block_tokens);
      for (int r = 0; r < R; ++r)
        sums[r][c] = Lanes::fma(Lanes::all(q[r * tile.head_dim + d]), k, sums[r][c]);
    }
  }
  const Lanes zero = Lanes::all(0.0f);
  for (int r = 0; r < R; ++r) {
    const Lanes weight = Lanes::all(tile.weights[head + r]);
    // If either operand is NaN, max returns the second one, so a NaN stays a NaN.
    for (int c = 0; c < C; ++c) scores[c] = Lanes::fma(weight, Lanes::max(zero, sums[r][c]), scores[c]);
  }
}

/// Computes the scores of C times 16 keys from `position` on.
template <int C>
inline void score_keys(const IndexTile& tile, int position) {
  const uint16_t* keys[C];
  Lanes scores[C];
  for (int c = 0; c < C; ++c) {
    const int at = position + 16 * c;
    keys[c] = tile.keys + tile.blocks[at / tile.block_tokens] * tile.block_stride + at % tile.block_tokens;
    scores[c] = Lanes::all(0.0f);
  }
  for_each_rows<Lanes::kMaxRows>(0, tile.n_heads, [&](int head, auto rows) {
    add_heads<decltype(rows)::value, C>(tile, head, keys, scores);
  });
  for (int c = 0; c < C; ++c) {
    const int at = position + 16 * c;
    store_up_to(scores[c], tile.scores + (at - tile.begin), smaller(16, tile.end - at));
  }
}

/// Implements VectorKernels::index_scores.
void index_scores(const IndexTile& tile) {
  constexpr int C = columns_for<Lanes::kMaxRows>();
  int position = tile.begin;
  for (; position + 16 * C <= tile.end; position += 16 * C) score_keys<C>(tile, position);
  for (; position < tile.end; position += 16) score_keys<1>(tile, position);
}

}  // namespace
}  // namespace hearth
