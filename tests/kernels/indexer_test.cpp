// Indexers on the CPU: choices and attention compared with doubles on every ISA, and equal bit for bit
// however a sequence is cut into steps, beside other sequences and with any number of threads.
#include "kernels/indexer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/half.h"
#include "tests/support/catch.h"
#include "tests/support/same_bits.h"

namespace hearth {
namespace {

constexpr int kBlock = 16, kLatent = 40, kAttentionHeads = 3;

float rounded(float x) { return float_from_half(half_from_float(x)); }

/// One sequence: an indexer's queries, weights and keys, and attention's queries and latents.
struct Text {
  Text(const IndexerShape& indexer, int tokens, unsigned seed) : shape(indexer), n(tokens) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& to, int width) {
      to.resize(static_cast<size_t>(n) * static_cast<size_t>(width));
      for (float& x : to) x = normal(random);
    };
    fill(q, shape.n_heads * shape.head_dim);
    fill(weights, shape.n_heads);
    fill(k, shape.head_dim);
    fill(queries, kAttentionHeads * kLatent);
    fill(latents, kLatent);
  }

  double score(int token, int position) const {
    double sum = 0;
    for (int h = 0; h < shape.n_heads; ++h) {
      double dot = 0;
      for (int d = 0; d < shape.head_dim; ++d) {
        dot += double{q[at(token * shape.n_heads + h, shape.head_dim, d)]} *
               double{rounded(k[at(position, shape.head_dim, d)])};
      }
      sum += double{weights[at(token, shape.n_heads, h)]} * std::max(0.0, dot);
    }
    return sum;
  }

  /// softmax(q latents) latents over these positions, in doubles.
  std::vector<double> attended(int token, int head, const std::vector<int32_t>& positions,
                               float scale) const {
    std::vector<double> p;
    for (const int32_t position : positions) {
      double dot = 0;
      for (int d = 0; d < kLatent; ++d) {
        dot += double{queries[at(token * kAttentionHeads + head, kLatent, d)]} *
               double{rounded(latents[at(position, kLatent, d)])};
      }
      p.push_back(std::exp(dot * double{scale}));
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    std::vector<double> out(kLatent, 0.0);
    for (size_t i = 0; i < p.size(); ++i) {
      for (int d = 0; d < kLatent; ++d)
        out[static_cast<size_t>(d)] += p[i] / sum * double{rounded(latents[at(positions[i], kLatent, d)])};
    }
    return out;
  }

  static size_t at(int row, int width, int column) {
    return static_cast<size_t>(row) * static_cast<size_t>(width) + static_cast<size_t>(column);
  }

  IndexerShape shape;
  int n;
  std::vector<float> q, weights, k, queries, latents;
};

/// Consecutive tokens of a text.
struct Part {
  const Text* text;
  int sequence;
  int begin, end;
};

/// A step's results for each token of its parts, in order.
struct Result {
  std::vector<int32_t> chosen;
  std::vector<float> out;
};

/// A layer on one backend, with room for sequences of max_context tokens.
class IndexedLayer {
 public:
  IndexedLayer(const IndexerShape& shape, Isa isa, int n_threads, int max_context, int n_sequences = 1)
      : shape_(shape), blocks_((max_context + kBlock - 1) / kBlock), backend_(n_threads, isa) {
    backend_.reserve({.max_tokens = 64,
                      .max_cols = 4096,
                      .n_heads = kAttentionHeads,
                      .max_context = max_context,
                      .head_dim = kLatent});
    backend_.reserve_indexer(
        {.shape = shape, .max_tokens = 64, .max_context = max_context, .value_dim = kLatent});
    const int n_blocks = blocks_ * n_sequences;
    // Block tables are in descending order, so that a misread table changes results.
    for (int i = 0; i < n_blocks; ++i) tables_.push_back(n_blocks - 1 - i);
    const auto n_tokens = static_cast<size_t>(n_blocks) * kBlock;
    keys_.assign(n_tokens * static_cast<size_t>(shape.head_dim), half_from_float(NAN));
    latent_keys_.assign(n_tokens * kLatent, half_from_float(NAN));
    latent_values_ = latent_keys_;
    kv_ = {.n_kv_heads = 1, .head_dim = kLatent, .block_tokens = kBlock, .n_blocks = n_blocks};
  }

  CpuBackend& backend() { return backend_; }

  Result step(const std::vector<Part>& parts, float scale = 0.2f) {
    std::vector<float> q, weights, k, queries, latents;
    std::vector<int32_t> positions, table_of;
    const auto append = [](std::vector<float>& to, const std::vector<float>& from, int row, int width) {
      to.insert(to.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
    };
    for (const Part& part : parts) {
      for (int t = part.begin; t < part.end; ++t) {
        append(q, part.text->q, t, shape_.n_heads * shape_.head_dim);
        append(weights, part.text->weights, t, shape_.n_heads);
        append(k, part.text->k, t, shape_.head_dim);
        append(queries, part.text->queries, t, kAttentionHeads * kLatent);
        append(latents, part.text->latents, t, kLatent);
        positions.push_back(t);
        table_of.push_back(part.sequence);
      }
    }
    const KvPlaces places{.n_tokens = static_cast<int>(positions.size()),
                          .positions = positions.data(),
                          .table_of = table_of.data(),
                          .block_tables = tables_.data(),
                          .max_blocks = blocks_};
    const KvLayer layer{latent_keys_.data(), latent_values_.data()};
    backend_.kv_append(latents.data(), latents.data(), kLatent, places, kv_, layer);
    IndexerOps& ops = backend_;
    ops.append_index(k.data(), places, kBlock, keys_.data());
    Result result;
    result.chosen.assign(positions.size() * static_cast<size_t>(shape_.top_k), -1);
    ops.choose_positions({.q = q.data(), .weights = weights.data()}, places, kBlock, keys_.data(),
                         result.chosen.data());
    result.out.resize(positions.size() * kAttentionHeads * kLatent);
    const ChosenQueries chosen_queries{queries.data(), int64_t{kAttentionHeads} * kLatent, kAttentionHeads,
                                       scale};
    ops.attend_to_chosen(chosen_queries, places, kv_, layer, result.chosen.data(), result.out.data());
    plain_.resize(result.out.size());
    backend_.attention(queries.data(), chosen_queries.stride, kAttentionHeads, {.scale = scale}, places, kv_,
                       layer, plain_.data());
    return result;
  }

  /// Attention of the last step over all positions.
  const std::vector<float>& plain() const { return plain_; }

 private:
  IndexerShape shape_;
  int blocks_;
  CpuBackend backend_;
  KvShape kv_;
  std::vector<int32_t> tables_;
  std::vector<uint16_t> keys_, latent_keys_, latent_values_;
  std::vector<float> plain_;
};

std::vector<int32_t> row_of(const Result& result, int token, int top_k) {
  const auto begin = result.chosen.begin() + token * top_k;
  return {begin, begin + top_k};
}

void check_choice(const Text& text, int token, const std::vector<int32_t>& chosen) {
  REQUIRE(std::ranges::is_sorted(chosen));
  REQUIRE(std::ranges::adjacent_find(chosen) == chosen.end());
  REQUIRE((chosen.front() >= 0 && chosen.back() <= token));
  std::vector<double> all, of_chosen;
  for (int s = 0; s <= token; ++s) all.push_back(text.score(token, s));
  double smallest = INFINITY, largest_other = -INFINITY;
  for (int s = 0; s <= token; ++s) {
    const bool is_chosen = std::ranges::binary_search(chosen, s);
    (is_chosen ? smallest : largest_other) = is_chosen ? std::min(smallest, all[static_cast<size_t>(s)])
                                                       : std::max(largest_other, all[static_cast<size_t>(s)]);
  }
  // Floats may take one of two scores for the larger if they differ by rounding only.
  CHECK(smallest >= largest_other - 1e-4 * text.shape.n_heads);
}

}  // namespace

TEST_CASE("an indexer chooses the positions with the largest scores, and attention reads these",
          "[indexer]") {
  const IndexerShape shape = GENERATE(IndexerShape{.n_heads = 1, .head_dim = 8, .top_k = 1},
                                      IndexerShape{.n_heads = 7, .head_dim = 20, .top_k = 13},
                                      IndexerShape{.n_heads = 12, .head_dim = 32, .top_k = 64});
  const Text text(shape, 150, 7);
  std::vector<Result> results;
  for (const Isa isa : supported_isas()) {
    INFO(isa_name(isa) << ", " << shape.n_heads << " heads, top " << shape.top_k);
    IndexedLayer layer(shape, isa, 2, text.n);
    Result all;
    for (int begin = 0; begin < text.n; begin += 50) {
      const Result result = layer.step({{&text, 0, begin, begin + 50}});
      all.chosen.insert(all.chosen.end(), result.chosen.begin(), result.chosen.end());
      all.out.insert(all.out.end(), result.out.begin(), result.out.end());
    }
    for (int t = 0; t < text.n; ++t) {
      std::vector<int32_t> seen(static_cast<size_t>(t) + 1);
      std::iota(seen.begin(), seen.end(), 0);
      const std::vector<int32_t> chosen = row_of(all, t, shape.top_k);
      if (t >= shape.top_k) check_choice(text, t, chosen);
      if (t < shape.top_k) CHECK(std::ranges::count(chosen, -1) == shape.top_k);
      for (int h = 0; h < kAttentionHeads; ++h) {
        const std::vector<double> expected = text.attended(t, h, t < shape.top_k ? seen : chosen, 0.2f);
        for (int d = 0; d < kLatent; ++d) {
          const double ours = double{all.out[Text::at(t * kAttentionHeads + h, kLatent, d)]};
          CHECK(std::abs(ours - expected[static_cast<size_t>(d)]) < 1e-5);
        }
      }
    }
    if (isa != Isa::kScalar) results.push_back(std::move(all));
  }
  for (const Result& one : results) {
    CHECK(one.chosen == results.front().chosen);
    CHECK(same_bits(one.out, results.front().out));
  }
}

TEST_CASE("an indexer gives a token the same bits in any batch, slicing and thread count", "[indexer]") {
  const IndexerShape shape{.n_heads = 5, .head_dim = 16, .top_k = 300};
  const Text text(shape, 600, 1), other(shape, 600, 2);
  for (const Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    Result alone;
    {
      IndexedLayer layer(shape, isa, 1, text.n);
      for (int t = 0; t < text.n; ++t) {
        const Result one = layer.step({{&text, 0, t, t + 1}});
        alone.chosen.insert(alone.chosen.end(), one.chosen.begin(), one.chosen.end());
        alone.out.insert(alone.out.end(), one.out.begin(), one.out.end());
        if (t < shape.top_k) CHECK(same_bits(one.out, layer.plain()));
      }
    }
    IndexedLayer layer(shape, isa, 3, text.n, 2);
    for (int begin = 0, n = 1; begin < text.n; begin += n, n = n % 29 + 1) {
      const int end = std::min(text.n, begin + n);
      // The other sequence is ahead of this one, and before it in the step.
      const Result both = layer.step({{&other, 1, begin, end}, {&text, 0, begin, end}});
      const int count = end - begin;
      const auto chosen = both.chosen.begin() + count * shape.top_k;
      CHECK(std::equal(chosen, chosen + count * shape.top_k, alone.chosen.begin() + begin * shape.top_k));
      constexpr int kRow = kAttentionHeads * kLatent;
      const std::vector<float> ours(both.out.begin() + count * kRow, both.out.end());
      const std::vector<float> expected(alone.out.begin() + begin * kRow, alone.out.begin() + end * kRow);
      CHECK(same_bits(ours, expected));
    }
  }
}

TEST_CASE("of equal scores, an indexer chooses the lower positions, and a NaN is the largest", "[indexer]") {
  const IndexerShape shape{.n_heads = 2, .head_dim = 16, .top_k = 20};
  Text text(shape, 64, 3);
  const auto set_key = [&](int position, float value) {
    std::fill_n(text.k.begin() + position * shape.head_dim, shape.head_dim, value);
  };
  std::ranges::fill(text.q, 1.0f);
  for (int t = 0; t < text.n; ++t) {
    // One head's weight is negative, so scores of zero are sums of zeros of both signs.
    text.weights[static_cast<size_t>(2 * t)] = 1.5f;
    text.weights[static_cast<size_t>(2 * t + 1)] = -0.5f;
    set_key(t, t % 3 == 0 ? -1.0f : -0.25f);  // all scores are 0
  }
  set_key(40, 1.0f);
  set_key(50, 2.0f);
  set_key(61, NAN);
  for (const Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    IndexedLayer layer(shape, isa, 2, text.n);
    const Result result = layer.step({{&text, 0, 0, 64}});
    std::vector<int32_t> expected(20);
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(row_of(result, 20, 20) == expected);
    CHECK(row_of(result, 39, 20) == expected);
    expected[19] = 40;
    CHECK(row_of(result, 45, 20) == expected);
    expected[18] = 40, expected[19] = 50;
    CHECK(row_of(result, 60, 20) == expected);
    expected[17] = 40, expected[18] = 50, expected[19] = 61;
    CHECK(row_of(result, 63, 20) == expected);
  }
}

}  // namespace hearth
