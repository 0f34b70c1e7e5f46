// Implements Attention: divides the queries into tiles, the keys into slices, and both among threads.
#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cassert>

namespace hearth {
namespace {

// The maximum number of query rows that are computed together on a slice. K and V are converted to floats
// once for each 6 rows (Lanes::kMaxRows), and are loaded into the first-level cache once for all 48 rows. The
// 48 rows still fit the second-level cache.
constexpr int kMaxRows = 48;

// Positions per slice: 256 keys of 64 dimensions are 64 KiB. One core computes them in about 5 microseconds,
// several times the cost of handing out a slice. A multiple of kKeyTile.
constexpr int kSliceTokens = 256;
// If a context would need more slices than this, its slices are made longer, which bounds the memory for
// results.
constexpr int kMaxSlices = 32;
static_assert(kSliceTokens % kKeyTile == 0);

// Steps of up to this many tokens are also divided by slices; longer steps have enough tiles for all threads.
constexpr int kMaxSplitTokens = 8;

// If there are fewer multiply-adds than this (about 2 microseconds of one core), sharing them among threads
// costs more time than it saves.
constexpr int64_t kForkWork = 64 * 1024;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// Token t sees the positions from first_key() to end_key() - 1.
int first_key(const KvPlaces& places, int t, const AttentionScores& scores) {
  return scores.first_seen(places.positions[t] + 1);
}
int end_key(const KvPlaces& places, int t, const AttentionScores& scores) {
  const int n_keys = places.n_keys(t);
  return scores.window > 0 ? std::min(n_keys, places.positions[t] + scores.window) : n_keys;
}

/// Returns the slice length for token t. It depends only on the positions that the token sees and on the
/// window, so a token's sums are grouped in the same way in every batch.
int slice_tokens_for(const KvPlaces& places, int t, const AttentionScores& scores) {
  int tokens = kSliceTokens;
  if (first_key(places, t, scores) == 0) {
    while (ceil_div(end_key(places, t, scores), tokens) > kMaxSlices) tokens *= 2;
  } else {
    // A window overlaps up to `widest` / tokens + 2 slices, because it may begin and end inside a slice. All
    // tokens of a step that is divided by slices together overlap at most one slice more than a single token.
    static_assert(kMaxSplitTokens <= kSliceTokens);
    const int widest = places.n_seen != nullptr ? 2 * scores.window - 1 : scores.window;
    while (widest / tokens + 3 > kMaxSlices) tokens *= 2;
  }
  return tokens;
}

template <KvType kType>
void read_from(const KvLayer& layer, const KvShape& shape, int head, AttentionTile& tile) {
  const KvHead<kType> keys = kv_head<kType>(layer.k, shape, head);
  const KvHead<kType> values = kv_head<kType>(layer.v, shape, head);
  tile.k = keys.numbers;
  tile.v = values.numbers;
  tile.k_scales = keys.scales;
  tile.v_scales = values.scales;
  tile.block_stride = keys.block_stride;
}

}  // namespace

void Attention::reserve(int max_tokens, int n_heads, int max_head_dim, int max_context) {
  max_head_dim_ = max_head_dim;
  max_slices_ = std::min(kMaxSlices, ceil_div(max_context, kSliceTokens));
  tiles_.reserve(static_cast<size_t>(max_tokens));
  scratch_.resize(static_cast<size_t>(pool_.n_threads()));
  for (Scratch& s : scratch_) {
    for (std::vector<float>* rows : {&s.q, &s.weighted, &s.slice_weighted}) {
      rows->resize(static_cast<size_t>(kMaxRows) * static_cast<size_t>(max_head_dim));
    }
    s.scores.resize(size_t{kMaxRows} * kKeyTile);
    for (std::vector<float>* row : {&s.largest, &s.sum, &s.slice_largest, &s.slice_sum})
      row->resize(kMaxRows);
    s.firsts.resize(kMaxRows);
    s.limits.resize(kMaxRows);
    s.positions.resize(kMaxRows);
    s.slopes.resize(kMaxRows);
  }
  zeros_.assign(static_cast<size_t>(max_head_dim), 0.0f);
  const size_t split_rows = static_cast<size_t>(std::min(max_tokens, kMaxSplitTokens)) *
                            static_cast<size_t>(n_heads) * static_cast<size_t>(max_slices_);
  split_largest_.resize(split_rows);
  split_sum_.resize(split_rows);
  split_weighted_.resize(split_rows * static_cast<size_t>(max_head_dim));
}

void Attention::run(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
                    const KvPlaces& places, const KvShape& shape, KvLayer layer, float* out) {
  const int group = n_heads / shape.n_kv_heads;
  const int heads_per_item = std::min(group, kMaxRows);
  const Call call{.q = q,
                  .stride = stride,
                  .n_heads = n_heads,
                  .scores = scores,
                  .places = places,
                  .shape = shape,
                  .layer = layer,
                  .out = out,
                  .group = group,
                  .heads_per_item = heads_per_item,
                  .items_per_tile = shape.n_kv_heads * ceil_div(group, heads_per_item)};
  assert(shape.head_dim <= max_head_dim_);
  make_tiles(call);
  const int64_t n_items = static_cast<int64_t>(tiles_.size()) * call.items_per_tile;

  int64_t work = 0;
  int most_slices = 0;
  for (const TokenTile& tile : tiles_) {
    const int last = tile.first_token + tile.n_tokens - 1;
    const int n_seen = end_key(places, last, scores) - first_key(places, last, scores);
    work += int64_t{tile.n_tokens} * n_heads * n_seen * shape.head_dim * 2;
    most_slices = std::max(most_slices, tile.n_slices());
  }
  if (places.n_tokens <= kMaxSplitTokens && most_slices > 1 && pool_.n_threads() > 1) {
    run_split(call, n_items);
    return;
  }
  const int64_t grain = work < kForkWork ? n_items : 1;
  pool_.for_each_piece(n_items, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      // Later tiles of a prompt see more keys. The longest tiles go first, so that the last one to finish is
      // short.
      run_whole(call, item_at(call, n_items - 1 - i), scratch_[static_cast<size_t>(thread)]);
    }
  });
}

void Attention::make_tiles(const Call& call) {
  const KvPlaces& places = call.places;
  const int max_tokens = std::max(1, kMaxRows / call.heads_per_item);
  tiles_.clear();
  for (int t = 0; t < places.n_tokens; ++t) {
    const int slice_tokens = slice_tokens_for(places, t, call.scores);
    const int first_slice = first_key(places, t, call.scores) / slice_tokens;
    const int end_slice = ceil_div(end_key(places, t, call.scores), slice_tokens);
    if (!tiles_.empty()) {
      TokenTile& last = tiles_.back();
      const bool continues =
          places.table_of[t] == places.table_of[t - 1] && places.positions[t] == places.positions[t - 1] + 1;
      if (continues && last.n_tokens < max_tokens && last.slice_tokens == slice_tokens) {
        ++last.n_tokens;
        last.end_slice = end_slice;
        continue;
      }
    }
    tiles_.push_back({t, 1, slice_tokens, first_slice, end_slice});
  }
}

Attention::Item Attention::item_at(const Call& call, int64_t index) const {
  const int parts = ceil_div(call.group, call.heads_per_item);
  const int within = static_cast<int>(index % call.items_per_tile);
  const int first = within % parts * call.heads_per_item;
  return {.tile = tiles_[static_cast<size_t>(index / call.items_per_tile)],
          .kv_head = within / parts,
          .first_head = within / parts * call.group + first,
          .n_heads = std::min(call.heads_per_item, call.group - first)};
}

/// Fills scratch.limits, and scratch.firsts if a window hides keys from one of the item's tokens.
Attention::Seen Attention::seen_by(const Call& call, const Item& item, Scratch& scratch) const {
  const int first_token = item.tile.first_token;
  const AttentionScores& scores = call.scores;
  const bool hides = first_key(call.places, first_token + item.tile.n_tokens - 1, scores) > 0;
  for (int row = 0; row < item.n_rows(); ++row) {
    const int token = first_token + row / item.n_heads;
    scratch.limits[static_cast<size_t>(row)] = end_key(call.places, token, scores);
    if (hides) scratch.firsts[static_cast<size_t>(row)] = first_key(call.places, token, scores);
  }
  return {hides ? scratch.firsts.data() : nullptr, scratch.limits.data()};
}

/// Returns the factor by which a token's queries are multiplied.
float Attention::query_scale(const Call& call, int token) const {
  const AttentionScores& scores = call.scores;
  if (scores.growth == nullptr) return scores.scale;
  return scores.scale *
         scores.growth[(call.places.positions[token] + scores.growth_from) / scores.growth_span];
}

/// Gathers the item's scaled queries, and describes its keys. Does not set the addresses of the results.
PartlySeenTile Attention::load_queries(const Call& call, const Item& item, Scratch& scratch) const {
  const int head_dim = call.shape.head_dim;
  int row = 0;
  for (int t = 0; t < item.tile.n_tokens; ++t) {
    const int token = item.tile.first_token + t;
    const float scale = query_scale(call, token);
    const float* head = call.q + token * call.stride + int64_t{item.first_head} * head_dim;
    for (int h = 0; h < item.n_heads; ++h, ++row, head += head_dim) {
      if (call.scores.slopes != nullptr) {
        scratch.slopes[static_cast<size_t>(row)] = call.scores.slopes[item.first_head + h];
        scratch.positions[static_cast<size_t>(row)] = call.places.positions[token];
      }
      float* q = scratch.q.data() + int64_t{row} * head_dim;
      for (int d = 0; d < head_dim; ++d) q[d] = head[d] * scale;
    }
  }
  const int64_t table = call.places.table_of[item.tile.first_token];
  const Seen seen = seen_by(call, item, scratch);
  PartlySeenTile tile;
  tile.q = scratch.q.data();
  tile.firsts = seen.firsts;
  tile.limits = seen.limits;
  tile.n_rows = item.n_rows();
  tile.head_dim = head_dim;
  if (call.shape.type == KvType::kQ8) {
    read_from<KvType::kQ8>(call.layer, call.shape, item.kv_head, tile);
  } else {
    read_from<KvType::kF16>(call.layer, call.shape, item.kv_head, tile);
  }
  tile.blocks = call.places.block_tables + table * call.places.max_blocks;
  tile.block_tokens = call.shape.block_tokens;
  tile.soft_cap = call.scores.soft_cap;
  if (call.scores.slopes != nullptr) {
    tile.slopes = scratch.slopes.data();
    tile.positions = scratch.positions.data();
  }
  tile.scores = scratch.scores.data();
  return tile;
}

void Attention::attend_slice(PartlySeenTile tile, KvType kv_type, const Item& item, int slice,
                             const Partial& result) const {
  const auto type = static_cast<size_t>(kv_type);
  tile.begin = slice * item.tile.slice_tokens;
  tile.end = std::min(tile.begin + item.tile.slice_tokens, tile.limits[tile.n_rows - 1]);
  if (tile.firsts != nullptr) tile.begin = std::max(tile.begin, tile.firsts[0] / kKeyTile * kKeyTile);
  tile.largest = result.largest;
  tile.sum = result.sum;
  tile.weighted = result.weighted;
  if (tile.firsts != nullptr || tile.soft_cap > 0.0f || tile.slopes != nullptr) {
    kernels_.attend_partly_seen[type](tile);
  } else {
    kernels_.attend[type](tile);
  }
}

/// Joins the result of a slice (`from`) into the item's rows (`into`). Skips rows that see no key of the
/// slice. A row's first slice is copied, because joining it could turn a sum of -0 into 0.
void Attention::merge_slice(const Call& call, const Item& item, const Seen& seen, int slice,
                            const Partial& from, const Partial& into) const {
  const int head_dim = call.shape.head_dim;
  const int begin = slice * item.tile.slice_tokens;
  for (int row = 0; row < item.n_rows(); ++row) {
    const int first = seen.firsts == nullptr ? 0 : seen.firsts[row];
    if (seen.limits[row] <= begin || first >= begin + item.tile.slice_tokens) continue;
    const float later[2] = {from.largest[row], from.sum[row]};
    float state[2] = {into.largest[row], into.sum[row]};
    const float* from_weighted = from.weighted + int64_t{row} * head_dim;
    float* into_weighted = into.weighted + int64_t{row} * head_dim;
    if (first < begin) {
      kernels_.merge(later, from_weighted, head_dim, state, into_weighted);
    } else {
      std::copy_n(later, 2, state);
      std::copy_n(from_weighted, head_dim, into_weighted);
    }
    into.largest[row] = state[0];
    into.sum[row] = state[1];
  }
}

void Attention::write_out(const Call& call, const Item& item, const Partial& total) const {
  const int head_dim = call.shape.head_dim;
  for (int row = 0; row < item.n_rows(); ++row) {
    const int64_t token = item.tile.first_token + row / item.n_heads;
    const int64_t head = item.first_head + row % item.n_heads;
    float* weighted = total.weighted + int64_t{row} * head_dim;
    float state[2] = {total.largest[row], total.sum[row]};
    if (call.scores.sinks !=
        nullptr) {  // a sink is one more slice, of one key that has the sink as its score and 0 as its value
      const float sink[2] = {call.scores.sinks[head], 1.0f};
      kernels_.merge(sink, zeros_.data(), head_dim, state, weighted);
    }
    kernels_.divide(weighted, state[1], head_dim, call.out + (token * call.n_heads + head) * head_dim);
  }
}

void Attention::run_whole(const Call& call, const Item& item, Scratch& scratch) const {
  const PartlySeenTile tile = load_queries(call, item, scratch);
  const Partial total{scratch.largest.data(), scratch.sum.data(), scratch.weighted.data()};
  const Partial later{scratch.slice_largest.data(), scratch.slice_sum.data(), scratch.slice_weighted.data()};
  attend_slice(tile, call.shape.type, item, item.tile.first_slice, total);
  for (int slice = item.tile.first_slice + 1; slice < item.tile.end_slice; ++slice) {
    attend_slice(tile, call.shape.type, item, slice, later);
    merge_slice(call, item, {tile.firsts, tile.limits}, slice, later, total);
  }
  write_out(call, item, total);
}

/// Returns where this item's result for a slice is stored until all slices are computed.
Attention::Partial Attention::split_result(const Call& call, const Item& item, int slice) {
  // The number of rows in the items before this item; each row has memory for max_slices_ results.
  const int64_t before =
      int64_t{item.tile.first_token} * call.n_heads + int64_t{item.first_head} * item.tile.n_tokens;
  const int64_t row = before * max_slices_ + int64_t{slice - item.tile.first_slice} * item.n_rows();
  return {split_largest_.data() + row, split_sum_.data() + row,
          split_weighted_.data() + row * call.shape.head_dim};
}

void Attention::run_split(const Call& call, int64_t n_items) {
  // 1. Compute every slice of every item, in any order.
  const int64_t n_pieces = n_items * max_slices_;
  pool_.for_each_piece(n_pieces, 1, [&](int64_t piece, int64_t, int thread) {
    const Item item = item_at(call, piece / max_slices_);
    const int slice = item.tile.first_slice + static_cast<int>(piece % max_slices_);
    if (slice >= item.tile.end_slice) return;
    const PartlySeenTile tile = load_queries(call, item, scratch_[static_cast<size_t>(thread)]);
    attend_slice(tile, call.shape.type, item, slice, split_result(call, item, slice));
  });
  // 2. Join the slices in the order of positions, as run_whole() does.
  for (int64_t i = 0; i < n_items; ++i) {
    const Item item = item_at(call, i);
    const Partial total = split_result(call, item, item.tile.first_slice);
    const Seen seen = seen_by(call, item, scratch_[0]);
    for (int slice = item.tile.first_slice + 1; slice < item.tile.end_slice; ++slice) {
      merge_slice(call, item, seen, slice, split_result(call, item, slice), total);
    }
    write_out(call, item, total);
  }
}

}  // namespace hearth
