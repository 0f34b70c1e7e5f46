// See the header.
#include "kernels/cpu/indexer_cpu.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace hearth {
namespace {

// Tokens that are processed together: as many as Attention divides by slices.
constexpr int kMostAtOnce = 8;
// Positions that one thread scores at a time.
constexpr int kScoredAtOnce = 256;
// Positions in a KV block of copies.
constexpr int kCopyBlock = 16;

int at_once(const IndexerBounds& bounds) { return std::min(kMostAtOnce, bounds.max_tokens); }

int blocks_of_copy(const IndexerShape& shape) { return (shape.top_k + kCopyBlock - 1) / kCopyBlock; }

/// Bytes of the copied keys, or of the copied values.
size_t copy_bytes(const IndexerBounds& bounds) {
  return sizeof(uint16_t) * static_cast<size_t>(at_once(bounds)) *
         static_cast<size_t>(blocks_of_copy(bounds.shape)) * kCopyBlock *
         static_cast<size_t>(bounds.value_dim);
}

/// Maps scores to integers of the same order. Zeros of both signs are equal, and a NaN is the largest.
uint32_t order_of(float score) {
  if (score != score) return ~uint32_t{0};
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// Writes the positions of the k largest of n scores to `chosen`, in ascending order. Of equal scores, the
/// lower position is chosen. order [n] and ties (room for n) are scratch. REQUIRES: k < n.
void choose_largest(const float* scores, int64_t n, int k, uint32_t* order, std::vector<uint64_t>& ties,
                    int32_t* chosen) {
  // 1. Find the group of scores with equal leading bits that contains the smallest chosen score.
  constexpr int kShift = 21;
  std::array<int64_t, size_t{1} << (32 - kShift)> counts{};
  for (int64_t i = 0; i < n; ++i) {
    order[i] = order_of(scores[i]);
    ++counts[order[i] >> kShift];
  }
  uint32_t group = static_cast<uint32_t>(counts.size()) - 1;
  int64_t left = k;
  while (counts[group] < left) left -= counts[group--];
  // 2. Sort this group just enough to know its last chosen score and position.
  const auto place = [&](int64_t i) { return uint64_t{~order[i]} << 32 | static_cast<uint64_t>(i); };
  ties.clear();
  for (int64_t i = 0; i < n; ++i) {
    if (order[i] >> kShift == group) ties.push_back(place(i));
  }
  const auto last = ties.begin() + (left - 1);
  std::nth_element(ties.begin(), last, ties.end());
  // 3. Everything up to that place is chosen.
  for (int64_t i = 0; i < n; ++i) {
    if (place(i) <= *last) *chosen++ = static_cast<int32_t>(i);
  }
}

/// The places of n_tokens tokens from first_token on.
KvPlaces part_of(const KvPlaces& places, int first_token, int n_tokens) {
  KvPlaces part = places;
  part.n_tokens = n_tokens;
  part.positions += first_token;
  part.table_of += first_token;
  return part;
}

const int32_t* table_of(const KvPlaces& places, int token) {
  return places.block_tables + int64_t{places.table_of[token]} * places.max_blocks;
}

}  // namespace

void IndexerCpu::reserve(const IndexerBounds& bounds, Memory& memory) {
  shape_ = bounds.shape;
  at_once_ = at_once(bounds);
  max_context_ = bounds.max_context;
  const auto n = static_cast<size_t>(at_once_);
  const auto n_scores = n * static_cast<size_t>(max_context_);
  scores_ = memory.allocate(n_scores * sizeof(float));
  order_ = memory.allocate(n_scores * sizeof(uint32_t));
  ties_.resize(n);
  for (std::vector<uint64_t>& one : ties_) one.reserve(static_cast<size_t>(max_context_));
  keys_ = memory.allocate(copy_bytes(bounds));
  values_ = memory.allocate(copy_bytes(bounds));
  const int n_blocks = blocks_of_copy(shape_);
  positions_.assign(n, shape_.top_k - 1);
  table_of_.resize(n);
  for (size_t i = 0; i < n; ++i) table_of_[i] = static_cast<int32_t>(i);
  tables_.resize(n * static_cast<size_t>(n_blocks));
  for (size_t i = 0; i < tables_.size(); ++i) tables_[i] = static_cast<int32_t>(i);
  rounded_.resize(static_cast<size_t>(pool_.n_threads()) * static_cast<size_t>(shape_.head_dim));
}

double IndexerCpu::bytes_needed(const IndexerBounds& bounds) {
  constexpr double kPerScore = sizeof(float) + sizeof(uint32_t) + sizeof(uint64_t);
  return 2.0 * static_cast<double>(copy_bytes(bounds)) + kPerScore * at_once(bounds) * bounds.max_context;
}

void IndexerCpu::append(const float* k, const KvPlaces& places, int block_tokens, uint16_t* keys) {
  const int dim = shape_.head_dim;
  pool_.for_each_piece(places.n_tokens, kScoredAtOnce, [&](int64_t begin, int64_t end, int thread) {
    uint16_t* const rounded = rounded_.data() + int64_t{thread} * dim;
    for (int64_t t = begin; t < end; ++t) {
      const int32_t position = places.positions[t];
      const int64_t block = table_of(places, static_cast<int>(t))[position / block_tokens];
      kernels_.to_half(k + t * dim, dim, rounded);
      uint16_t* const column = keys + block * dim * block_tokens + position % block_tokens;
      for (int64_t d = 0; d < dim; ++d) column[d * block_tokens] = rounded[d];
    }
  });
}

/// Returns the end of the run of tokens that begins with `token`. Either all tokens of a run need a choice,
/// or none does. A run that needs choices has at most at_once_ tokens.
int IndexerCpu::next_run(const KvPlaces& places, int token) const {
  const bool chooses = needs_choice(places, token);
  const int most = chooses ? std::min(places.n_tokens, token + at_once_) : places.n_tokens;
  int end = token + 1;
  while (end < most && needs_choice(places, end) == chooses) ++end;
  return end;
}

void IndexerCpu::choose(const IndexQueries& queries, const KvPlaces& places, int block_tokens,
                        const uint16_t* keys, int32_t* chosen) {
  assert(block_tokens % 16 == 0 && places.n_seen == nullptr);
  for (int t = 0, end = 0; t < places.n_tokens; t = end) {
    end = next_run(places, t);
    if (needs_choice(places, t)) choose_for(queries, places, block_tokens, keys, t, end - t, chosen);
  }
}

void IndexerCpu::choose_for(const IndexQueries& queries, const KvPlaces& places, int block_tokens,
                            const uint16_t* keys, int first_token, int n_tokens, int32_t* chosen) {
  float* const scores = scores_.floats();
  int64_t longest = 0;
  for (int i = 0; i < n_tokens; ++i)
    longest = std::max<int64_t>(longest, places.positions[first_token + i] + 1);
  assert(longest <= max_context_);
  const int64_t n_parts = (longest + kScoredAtOnce - 1) / kScoredAtOnce;
  pool_.for_each_piece(n_parts * n_tokens, 1, [&](int64_t piece, int64_t, int) {
    const int64_t i = piece % n_tokens, begin = piece / n_tokens * kScoredAtOnce;
    const int token = first_token + static_cast<int>(i);
    const int64_t end = std::min<int64_t>(begin + kScoredAtOnce, places.positions[token] + 1);
    if (begin >= end) return;
    IndexTile tile;
    tile.q = queries.q + int64_t{token} * shape_.n_heads * shape_.head_dim;
    tile.weights = queries.weights + int64_t{token} * shape_.n_heads;
    tile.n_heads = shape_.n_heads;
    tile.head_dim = shape_.head_dim;
    tile.begin = static_cast<int>(begin);
    tile.end = static_cast<int>(end);
    tile.keys = keys;
    tile.block_stride = int64_t{shape_.head_dim} * block_tokens;
    tile.blocks = table_of(places, token);
    tile.block_tokens = block_tokens;
    tile.scores = scores + i * max_context_ + begin;
    kernels_.index_scores(tile);
  });
  auto* const order = static_cast<uint32_t*>(order_.data());
  pool_.for_each_piece(n_tokens, 1, [&](int64_t i, int64_t, int) {
    const int64_t token = first_token + i;
    choose_largest(scores + i * max_context_, places.positions[token] + 1, shape_.top_k,
                   order + i * max_context_, ties_[static_cast<size_t>(i)], chosen + token * shape_.top_k);
  });
}

void IndexerCpu::attend(const ChosenQueries& queries, const KvPlaces& places, const KvShape& shape,
                        KvLayer layer, const int32_t* chosen, float* out) {
  assert(shape.n_kv_heads == 1 && shape.type == KvType::kF16);
  const AttentionScores scores{.scale = queries.scale};
  for (int t = 0, end = 0; t < places.n_tokens; t = end) {
    end = next_run(places, t);
    KvPlaces part = part_of(places, t, end - t);
    KvShape of_part = shape;
    KvLayer from = layer;
    if (needs_choice(places, t)) {
      gather(places, shape, layer, chosen, t, end - t);
      part.positions = positions_.data();
      part.table_of = table_of_.data();
      part.block_tables = tables_.data();
      part.max_blocks = blocks_of_copy(shape_);
      of_part.block_tokens = kCopyBlock;
      of_part.n_blocks = static_cast<int>(tables_.size());
      from = {keys_.data(), values_.data()};
    }
    attention_.run(queries.q + t * queries.stride, queries.stride, queries.n_heads, scores, part, of_part,
                   from, out + int64_t{t} * queries.n_heads * shape.head_dim);
  }
}

/// Copies the chosen keys and values of n_tokens tokens. Both are read as values, because a position's values
/// are side by side.
void IndexerCpu::gather(const KvPlaces& places, const KvShape& shape, KvLayer layer, const int32_t* chosen,
                        int first_token, int n_tokens) {
  const int64_t dim = shape.head_dim, n_blocks = blocks_of_copy(shape_);
  const auto* const from = static_cast<const uint16_t*>(layer.v);
  pool_.for_each_piece(n_tokens * n_blocks, 1, [&](int64_t block, int64_t, int) {
    const int64_t token = first_token + block / n_blocks, first = block % n_blocks * kCopyBlock;
    const int64_t n = std::min<int64_t>(kCopyBlock, shape_.top_k - first);
    const int32_t* const table = table_of(places, static_cast<int>(token));
    uint16_t* const keys = static_cast<uint16_t*>(keys_.data()) + block * kCopyBlock * dim;
    uint16_t* const values = static_cast<uint16_t*>(values_.data()) + block * kCopyBlock * dim;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t position = chosen[token * shape_.top_k + first + i];
      const int64_t row =
          int64_t{table[position / shape.block_tokens]} * shape.block_tokens + position % shape.block_tokens;
      std::copy_n(from + row * dim, dim, values + i * dim);
    }
    for (int64_t d = 0; d < dim; ++d) {
      for (int64_t i = 0; i < n; ++i) keys[d * kCopyBlock + i] = values[i * dim + d];
    }
  });
}

}  // namespace hearth
