// Attention of a tile of queries over one slice of keys. The source uses the class Lanes and is compiled once
// per ISA.
//
//   for each tile of kKeyTile keys: s = q k^T;  m' = max(m, max s);  p = exp(s - m');
//                                   sum = sum * exp(m - m') + p;  w = w * exp(m - m') + p v
//
// (Milakov, Gimelshein 2018; tiled as in Dao 2022.) Both products broadcast one number of a row (of q or p)
// and multiply it by a vector of K or V. So no sum runs across lanes. This is why the keys of a KV block are
// stored side by side. A row's operations and their order depend only on its own limit, so a query gives the
// same bits whether it is computed alone (decode) or with others (prefill). Included after rows_inl.h; the
// rules of that file apply here.
#pragma once

#include "kernels/cpu/lanes/rows_inl.h"

namespace hearth {
namespace {

/// A tile with a fixed key/value type, so that its loops are compiled for the type.
template <class Plain, KvType kType>
struct Typed : Plain {
  static constexpr bool kScaled = kType == KvType::kQ8;
  using Number = typename KvStored<kType>::Number;
  explicit Typed(const Plain& plain) : Plain(plain) {}
};

inline Lanes load_numbers(const uint16_t* x) { return Lanes::load_half(x); }
inline Lanes load_numbers(const int8_t* x) { return Lanes::load_int8(x); }
inline Lanes load_numbers_n(const uint16_t* x, int n) { return Lanes::load_half_n(x, n); }
inline Lanes load_numbers_n(const int8_t* x, int n) { return Lanes::load_int8_n(x, n); }

/// A run of up to 16 adjacent keys: the address of their columns, their number, and the index of the first
/// key's score.
template <class Number>
struct KeyColumns {
  const Number* k;
  const uint16_t* scales;
  int count;
  int at;
};

/// Consecutive keys of one KV block: the address of their values, and their number.
template <class Number>
struct ValueRun {
  const Number* v;
  const uint16_t* scales;
  int count;
};

/// One tile of keys, divided at the borders of KV blocks. `whole` has the runs of exactly 16 keys, and `part`
/// has the shorter runs. Both are in key order.
template <class Number>
struct KeyTileParts {
  KeyColumns<Number> whole[kKeyTile];  // at most one per key
  KeyColumns<Number> part[kKeyTile];
  ValueRun<Number> runs[kKeyTile];
  int n_whole = 0, n_part = 0, n_runs = 0;
};
template <class Tile>
using PartsOf = KeyTileParts<typename Tile::Number>;

constexpr float kMinusInfinity = -__builtin_inff();

inline int smaller(int a, int b) { return a < b ? a : b; }
inline int larger(int a, int b) { return a > b ? a : b; }

/// Divides the keys [begin, end) by KV block, and the keys of each KV block into runs of 16 and a shorter
/// run. Stores the runs in `parts`. The runs of keys (but not of values) may also include keys in [end, stop)
/// that are in the KV block of the last key. REQUIRES: begin < end <= stop.
template <class Tile>
inline void take_apart(const Tile& tile, int begin, int end, int stop, PartsOf<Tile>& parts) {
  using Number = typename Tile::Number;
  parts.n_whole = parts.n_part = parts.n_runs = 0;
  for (int position = begin; position < end;) {
    const int block = tile.blocks[position / tile.block_tokens];
    const int offset = position % tile.block_tokens;
    // Scores may be computed up to the end of the KV block, even for keys that are not written yet, because
    // lanes are independent and are masked afterward.
    const int columns = smaller(tile.block_tokens - offset, stop - position);
    const Number* k = static_cast<const Number*>(tile.k) + block * tile.block_stride + offset;
    const Number* v = static_cast<const Number*>(tile.v) + block * tile.block_stride +
                      static_cast<int64_t>(offset) * tile.head_dim;
    const uint16_t *k_scales = nullptr, *v_scales = nullptr;
    if constexpr (Tile::kScaled) {
      k_scales = tile.k_scales + block * (tile.block_stride / 2) + offset;
      v_scales = tile.v_scales + block * (tile.block_stride / 2) + offset * (tile.head_dim / kKvGroup);
    }
    for (int i = 0; i < columns; i += 16) {
      const KeyColumns<Number> key_columns = {k + i, Tile::kScaled ? k_scales + i : nullptr,
                                              smaller(16, columns - i), position - begin + i};
      if (key_columns.count == 16) {
        parts.whole[parts.n_whole++] = key_columns;
      } else {
        parts.part[parts.n_part++] = key_columns;
      }
    }
    const int count = smaller(columns, end - position);
    parts.runs[parts.n_runs++] = {v, v_scales, count};
    position += count;
  }
}

/// Calls body(first dimension, end, group) for each run of dimensions that share a scale, or once if there
/// are no scales.
template <class Tile, class Body>
inline void for_each_group(const Tile& tile, Body&& body) {
  if constexpr (Tile::kScaled) {
    for (int group = 0; group < tile.head_dim / kKvGroup; ++group)
      body(group * kKvGroup, group * kKvGroup + kKvGroup, group);
  } else {
    body(0, tile.head_dim, 0);
  }
}

/// Computes the scores of R rows with C times 16 keys.
template <int R, int C, class Tile>
inline void score(const Tile& tile, int row, const KeyColumns<typename Tile::Number>* columns) {
  Lanes sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = Lanes::all(0.0f);
  }
  const float* q = tile.q + static_cast<int64_t>(row) * tile.head_dim;
  for_each_group(tile, [&](int64_t begin, int64_t end, int64_t group) {
    [[maybe_unused]] Lanes scales[C];
    if constexpr (Tile::kScaled) {
      for (int c = 0; c < C; ++c) scales[c] = Lanes::load_half(columns[c].scales + group * tile.block_tokens);
    }
    for (int64_t d = begin; d < end; ++d) {
      for (int c = 0; c < C; ++c) {
        Lanes k = load_numbers(columns[c].k + d * tile.block_tokens);
        if constexpr (Tile::kScaled) k = Lanes::mul(k, scales[c]);
        for (int r = 0; r < R; ++r) {
          sums[r][c] = Lanes::fma(Lanes::all(q[r * tile.head_dim + d]), k, sums[r][c]);
        }
      }
    }
  });
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) Lanes::store(sums[r][c], tile.scores + (row + r) * kKeyTile + columns[c].at);
  }
}

/// Computes the scores of one row with fewer than 16 keys.
template <class Tile>
inline void score_part(const Tile& tile, int row, const KeyColumns<typename Tile::Number>& columns) {
  Lanes sum = Lanes::all(0.0f);
  const float* q = tile.q + static_cast<int64_t>(row) * tile.head_dim;
  for_each_group(tile, [&](int64_t begin, int64_t end, int64_t group) {
    [[maybe_unused]] Lanes scales;
    if constexpr (Tile::kScaled)
      scales = Lanes::load_half_n(columns.scales + group * tile.block_tokens, columns.count);
    for (int64_t d = begin; d < end; ++d) {
      Lanes k = load_numbers_n(columns.k + d * tile.block_tokens, columns.count);
      if constexpr (Tile::kScaled) k = Lanes::mul(k, scales);
      sum = Lanes::fma(Lanes::all(q[d]), k, sum);
    }
  });
  Lanes::store_n(sum, tile.scores + row * kKeyTile + columns.at, columns.count);
}

/// For R rows, adds p v of the first `n_keys` keys to `weighted`, in the 16 * C dimensions that begin at
/// `dim`. REQUIRES: dim is a multiple of 16 * C.
template <int R, int C, class Tile>
inline void add_values(const Tile& tile, int row, int dim, const PartsOf<Tile>& parts, int n_keys) {
  static_assert(C == 1 || C == 2 || C == 4, "dimensions of half a group, one, or two");
  float* weighted = tile.weighted + static_cast<int64_t>(row) * tile.head_dim + dim;
  Lanes sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = Lanes::load(weighted + r * tile.head_dim + 16 * c);
  }
  const float* p = tile.scores + row * kKeyTile;
  for (int i = 0; i < parts.n_runs && n_keys > 0; ++i) {
    const int count = smaller(parts.runs[i].count, n_keys);
    const typename Tile::Number* v = parts.runs[i].v + dim;
    const uint16_t* scales = parts.runs[i].scales;
    if constexpr (Tile::kScaled) scales += dim / kKvGroup;
    for (int key = 0; key < count; ++key, v += tile.head_dim, ++p) {
      [[maybe_unused]] Lanes scale;
      for (int c = 0; c < C; ++c) {
        Lanes value = load_numbers(v + 16 * c);
        if constexpr (Tile::kScaled) {
          if (c % 2 == 0) scale = Lanes::all_half(scales[c / 2]);
          value = Lanes::mul(value, scale);
        }
        for (int r = 0; r < R; ++r) sums[r][c] = Lanes::fma(Lanes::all(p[r * kKeyTile]), value, sums[r][c]);
      }
      if constexpr (Tile::kScaled) scales += tile.head_dim / kKvGroup;
    }
    n_keys -= count;
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) Lanes::store(sums[r][c], weighted + r * tile.head_dim + 16 * c);
  }
}

/// Like add_values(), for the last `count` < 16 dimensions of one row. Types with scales never have such a
/// remainder.
template <class Tile>
inline void add_values_part(const Tile& tile, int row, int dim, int count, const PartsOf<Tile>& parts,
                            int n_keys) {
  float* weighted = tile.weighted + static_cast<int64_t>(row) * tile.head_dim + dim;
  Lanes sum = Lanes::load_n(weighted, count);
  const float* p = tile.scores + row * kKeyTile;
  for (int i = 0; i < parts.n_runs && n_keys > 0; ++i) {
    const uint16_t* v = parts.runs[i].v + dim;
    for (int key = 0; key < parts.runs[i].count && n_keys > 0; ++key, v += tile.head_dim, ++p, --n_keys) {
      sum = Lanes::fma(Lanes::all(*p), Lanes::load_half_n(v, count), sum);
    }
  }
  Lanes::store_n(sum, weighted, count);
}

/// The number of vectors of 16 keys (or of 16 dimensions) in an inner tile of R rows: four, two or one,
/// depending on the number of registers.
template <int R>
constexpr int columns_for() {
  constexpr int kFit = Lanes::kAccumulators / R;
  return kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
}

template <int R, class Tile>
inline void score_rows(const Tile& tile, int row, const PartsOf<Tile>& parts) {
  constexpr int C = columns_for<R>();
  int i = 0;
  for (; i + C <= parts.n_whole; i += C) score<R, C>(tile, row, parts.whole + i);
  for (; i < parts.n_whole; ++i) score<R, 1>(tile, row, parts.whole + i);
  for (i = 0; i < parts.n_part; ++i) {
    for (int r = 0; r < R; ++r) score_part(tile, row + r, parts.part[i]);
  }
}

template <int R, class Tile>
inline void add_values_rows(const Tile& tile, int row, const PartsOf<Tile>& parts, int n_keys) {
  constexpr int C = columns_for<R>();
  int dim = 0;
  for (; dim + 16 * C <= tile.head_dim; dim += 16 * C) add_values<R, C>(tile, row, dim, parts, n_keys);
  for (; dim + 16 <= tile.head_dim; dim += 16) add_values<R, 1>(tile, row, dim, parts, n_keys);
  if constexpr (!Tile::kScaled) {
    if (dim == tile.head_dim) return;
    for (int r = 0; r < R; ++r) add_values_part(tile, row + r, dim, tile.head_dim - dim, parts, n_keys);
  }
}

/// Divides the rows [begin, end) into groups of R <= MaxR rows, and calls body(first row, integral constant
/// R) for each group.
template <int R>
struct RowCount {
  static constexpr int value = R;
};
template <int MaxR, class Body>
inline void for_each_rows(int begin, int end, Body&& body) {
  for (; begin + MaxR <= end; begin += MaxR) body(begin, RowCount<MaxR>{});
  if constexpr (MaxR > 1) {
    if (begin < end) for_each_rows<MaxR - 1>(begin, end, body);
  }
}

/// Rescales one row's sums over all earlier keys to the new largest score, and turns the row's scores of
/// n_keys keys into exp(score - largest).
template <class Tile>
inline void soften(const Tile& tile, int row, int n_keys) {
  float* scores = tile.scores + row * kKeyTile;
  const int n_lanes = (n_keys + 15) / 16;
  Lanes largest = Lanes::all(tile.largest[row]);
  for (int i = 0; i < n_lanes; ++i) {
    Lanes s = Lanes::load(scores + 16 * i);
    if (16 * i + 16 > n_keys) {
      s = Lanes::keep_first(s, n_keys - 16 * i, Lanes::all(kMinusInfinity));
      Lanes::store(s, scores + 16 * i);
    }
    largest = Lanes::max(largest, s);
  }
  const float before = tile.largest[row];
  const float now = Lanes::largest(largest);
  const Lanes now_lanes = Lanes::all(now);
  Lanes sum = Lanes::all(0.0f);
  for (int i = 0; i < n_lanes; ++i) {
    const Lanes p = exponential(Lanes::sub(Lanes::load(scores + 16 * i), now_lanes));
    Lanes::store(p, scores + 16 * i);
    sum = Lanes::add(sum, p);
  }
  const float tile_sum = Lanes::sum(sum);
  if (now == before) {  // multiplying by exp(0) = 1 changes nothing
    tile.sum[row] = tile.sum[row] + tile_sum;
    return;
  }
  const Lanes shrink = exponential(Lanes::all(before - now));
  float shrink_lanes[16];
  Lanes::store(shrink, shrink_lanes);
  tile.sum[row] = tile.sum[row] * shrink_lanes[0] + tile_sum;
  tile.largest[row] = now;
  float* weighted = tile.weighted + static_cast<int64_t>(row) * tile.head_dim;
  for_each_lanes(tile.head_dim, [&](int64_t i, int count) {
    store_up_to(Lanes::mul(load_up_to(weighted + i, count), shrink), weighted + i, count);
  });
}

template <KvType kType>
void attend(const AttentionTile& plain) {
  const Typed<AttentionTile, kType> tile(plain);
  for (int row = 0; row < tile.n_rows; ++row) {
    tile.largest[row] = kMinusInfinity;
    tile.sum[row] = 0.0f;
  }
  for (int64_t i = 0; i < static_cast<int64_t>(tile.n_rows) * tile.head_dim; ++i) tile.weighted[i] = 0.0f;
  PartsOf<Typed<AttentionTile, kType>> parts;
  int first = 0;  // rows before `first` see no key of this tile or of later tiles
  for (int begin = tile.begin; begin < tile.end; begin += kKeyTile) {
    const int end = smaller(begin + kKeyTile, tile.end);
    while (first < tile.n_rows && tile.limits[first] <= begin) ++first;
    int first_whole = first;  // rows from first_whole on see the whole tile
    while (first_whole < tile.n_rows && tile.limits[first_whole] < end) ++first_whole;

    take_apart(tile, begin, end, begin + kKeyTile, parts);
    for_each_rows<Lanes::kMaxRows>(
        first, tile.n_rows, [&](int row, auto rows) { score_rows<decltype(rows)::value>(tile, row, parts); });
    for (int row = first; row < tile.n_rows; ++row) soften(tile, row, smaller(tile.limits[row], end) - begin);
    // Every row stops at its limit. A weight of 0 for later keys would not exclude them, because 0 times
    // infinity is NaN.
    for (int row = first; row < first_whole; ++row) {
      add_values_rows<1>(tile, row, parts, tile.limits[row] - begin);
    }
    for_each_rows<Lanes::kMaxRows>(first_whole, tile.n_rows, [&](int row, auto rows) {
      add_values_rows<decltype(rows)::value>(tile, row, parts, end - begin);
    });
  }
}

/// Caps one row's scores of the keys [from, to) of a tile. Also changes unused scores before and after them,
/// because it works on vectors of 16.
inline void cap_scores(const PartlySeenTile& tile, int row, int from, int to) {
  float* scores = tile.scores + row * kKeyTile;
  for (int i = from / 16 * 16; i < to; i += 16) {
    Lanes::store(soft_capped(Lanes::load(scores + i), tile.soft_cap), scores + i);
  }
}

/// Lowers one row's scores of the keys [from, to) of the tile that begins at position `begin`.
inline void lower_scores(const PartlySeenTile& tile, int row, int begin, int from, int to) {
  float* scores = tile.scores + row * kKeyTile;
  const float slope = tile.slopes[row];
  const int position = tile.positions[row] - begin;
  for (int i = from; i < to; ++i) {
    const int distance = i < position ? position - i : i - position;
    scores[i] -= slope * static_cast<float>(distance);
  }
}

/// Computes the keys [begin, end) of one tile of keys for rows from `first` on. Skips KV blocks and runs of
/// 16 keys in which no row sees a key. Hidden keys get the score -infinity, so their p is exactly 0, and
/// their values are skipped.
template <class Tile>
inline void attend_to_some(const Tile& tile, int begin, int end, int first, PartsOf<Tile>& parts) {
  const auto from = [&](int row) { return larger(tile.firsts == nullptr ? 0 : tile.firsts[row], begin); };
  const auto to = [&](int row) { return smaller(tile.limits[row], end); };
  int last = first;
  while (last < tile.n_rows && from(last) < end) ++last;
  if (first == last) return;
  const int seen_from = from(first);
  const int skipped =
      larger((seen_from - begin) / 16 * 16, seen_from / tile.block_tokens * tile.block_tokens - begin);
  take_apart(tile, begin + skipped, end, begin + kKeyTile, parts);
  Tile later = tile;  // the tile without its first `skipped` keys
  later.scores += skipped;
  for_each_rows<Lanes::kMaxRows>(
      first, last, [&](int row, auto rows) { score_rows<decltype(rows)::value>(later, row, parts); });
  for (int row = first; row < last; ++row) {
    if (tile.soft_cap > 0.0f) cap_scores(tile, row, skipped, to(row) - begin);
    if (tile.slopes != nullptr) lower_scores(tile, row, begin, skipped, to(row) - begin);
    for (int i = 0; i < from(row) - begin; ++i) tile.scores[row * kKeyTile + i] = kMinusInfinity;
    soften(tile, row, to(row) - begin);
  }
  // Rows that see the same keys of the tile are computed together.
  for (int row = first; row < last;) {
    int next = row + 1;
    while (next < last && from(next) == from(row) && to(next) == to(row)) ++next;
    take_apart(tile, from(row), to(row), to(row), parts);
    later.scores = tile.scores + (from(row) - begin);
    for_each_rows<Lanes::kMaxRows>(row, next, [&](int r, auto rows) {
      add_values_rows<decltype(rows)::value>(later, r, parts, to(row) - from(row));
    });
    row = next;
  }
}

/// Like attend(), but with windows, capped scores and slopes. Apart from these, a row goes through the same
/// operations as in attend().
template <KvType kType>
void attend_partly_seen(const PartlySeenTile& plain) {
  const Typed<PartlySeenTile, kType> tile(plain);
  for (int row = 0; row < tile.n_rows; ++row) {
    tile.largest[row] = kMinusInfinity;
    tile.sum[row] = 0.0f;
  }
  for (int64_t i = 0; i < static_cast<int64_t>(tile.n_rows) * tile.head_dim; ++i) tile.weighted[i] = 0.0f;
  PartsOf<Typed<PartlySeenTile, kType>> parts;
  int first = 0;  // rows before `first` see no key of this tile or of later tiles
  for (int begin = tile.begin; begin < tile.end; begin += kKeyTile) {
    while (first < tile.n_rows && tile.limits[first] <= begin) ++first;
    attend_to_some(tile, begin, smaller(begin + kKeyTile, tile.end), first, parts);
  }
}

/// Implements VectorKernels::merge. REQUIRES: the slice saw at least one key.
void merge(const float* slice_state, const float* slice_weighted, int head_dim, float* state,
           float* weighted) {
  const float largest = slice_state[0] > state[0] ? slice_state[0] : state[0];
  float factors[16];
  Lanes::store(exponential(Lanes::all(state[0] - largest)), factors);
  const float old_factor = factors[0];
  Lanes::store(exponential(Lanes::all(slice_state[0] - largest)), factors);
  const float new_factor = factors[0];
  state[0] = largest;
  state[1] = state[1] * old_factor + slice_state[1] * new_factor;
  const Lanes old_lanes = Lanes::all(old_factor);
  const Lanes new_lanes = Lanes::all(new_factor);
  for_each_lanes(head_dim, [&](int64_t i, int count) {
    const Lanes joined = Lanes::fma(load_up_to(slice_weighted + i, count), new_lanes,
                                    Lanes::mul(load_up_to(weighted + i, count), old_lanes));
    store_up_to(joined, weighted + i, count);
  });
}

void divide(const float* weighted, float sum, int64_t n, float* out) {
  const Lanes denominator = Lanes::all(sum);
  for_each_lanes(n, [&](int64_t i, int count) {
    store_up_to(Lanes::div(load_up_to(weighted + i, count), denominator), out + i, count);
  });
}

}  // namespace
}  // namespace hearth
