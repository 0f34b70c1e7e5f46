// The cache of experts: which experts are copied and when, which stay, and that equal use moves none.
#include "engine/residency/expert_cache.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

using Exchanges = std::vector<ExpertExchange>;

/// Ends a token that used these experts in layer 0, and reports what was brought as arrived.
Exchanges token(ExpertCache& cache, const std::vector<int32_t>& used, int n = 10) {
  Exchanges out;
  cache.use(0, used, n, out);
  cache.end_token();
  for (const ExpertExchange& exchange : out) {
    CHECK_FALSE(cache.has(exchange.layer, exchange.expert));  // it is only arriving
    cache.arrived(exchange.layer, exchange.row);
    CHECK(cache.has(exchange.layer, exchange.expert));
  }
  return out;
}

ExpertCache::Layer layer_of(int n_experts, std::vector<int32_t> hot, std::vector<int32_t> cached,
                            int n_rows) {
  return {.n_experts = n_experts,
          .hot = std::move(hot),
          .n_rows = n_rows,
          .cached = std::move(cached),
          .use = {}};
}

}  // namespace

TEST_CASE("expert cache: an expert is brought to a free row when it is used") {
  ExpertCache cache(std::vector{layer_of(8, {0}, {1}, 3)}, {.margin = 1});
  CHECK(cache.has(0, 0));
  CHECK(cache.has(0, 1));
  CHECK(token(cache, {0, 1}).empty());
  CHECK(token(cache, {0, 5}) == Exchanges{{0, 5, 1, -1}});
  CHECK(token(cache, {6}) == Exchanges{{0, 6, 2, -1}});
  CHECK(token(cache, {7}).empty());  // no row is free
}

TEST_CASE("expert cache: an expert replaces the least used one when it is expected to be used more") {
  // Nothing is learned in so few tokens: only the slowest count is trusted.
  ExpertCache cache(std::vector{layer_of(8, {}, {1, 2}, 2)}, {.margin = 1});
  token(cache, {1, 2});
  token(cache, {2});
  Exchanges out;
  int n = 0;
  for (; out.empty() && n < 20; ++n) out = token(cache, {5});
  // Expert 5 was then used by three more tokens than expert 1. 21 tokens count so far, so 8 * 3 / 21 more
  // uses are expected.
  CHECK(n == 4);
  CHECK(out == Exchanges{{0, 5, 0, 1}});
  CHECK_FALSE(cache.has(0, 1));
  CHECK(cache.has(0, 2));
  // hot experts are never replaced
  ExpertCache hot(std::vector{layer_of(4, {1, 2}, {}, 0)}, {});
  for (int i = 0; i < 20; ++i) CHECK(token(hot, {3}).empty());
}

TEST_CASE("expert cache: a layer's best exchanges come first, and no more than were asked for") {
  ExpertCache cache(std::vector(2, layer_of(6, {}, {0, 1}, 2)), {.margin = 0.1});
  Exchanges out;
  const std::vector<int32_t> three{4, 2, 3}, two{3, 2};
  for (int i = 0; i < 3; ++i) {
    CHECK(cache.use(1, i < 2 ? three : two, 0, out) == 2);  // an expert could take each of the two rows
    CHECK(out.empty());
    cache.end_token();
  }
  ExpertCache same = cache;
  CHECK(same.use(1, three, 1, out) == 1);
  CHECK(out == Exchanges{{1, 2, 0, 0}});
  CHECK(cache.use(1, three, 2, out) == 0);              // expert 4 has no row to take
  CHECK(out == Exchanges{{1, 2, 0, 0}, {1, 3, 1, 1}});  // 4 uses each, against 3 of expert 4
  cache.end_token();
  // Rows whose experts are arriving are not given away.
  for (int i = 0; i < 9; ++i) {
    CHECK(cache.use(1, std::vector<int32_t>{0, 1}, 5, out) == 0);
    CHECK(out.empty());
    cache.end_token();
  }
}

TEST_CASE("expert cache: several tokens of a step that use an expert count once") {
  ExpertCache cache(std::vector{layer_of(8, {}, {1}, 1)}, {.margin = 0.6});
  Exchanges out;
  cache.use(0, std::vector<int32_t>{5, 5, 5}, 5, out);
  CHECK(out.empty());  // as if it had been used once
  cache.end_token();
  cache.use(0, std::vector<int32_t>{5, 6, 5}, 5, out);
  CHECK(out == Exchanges{{0, 5, 0, 1}});
}

TEST_CASE("expert cache: old use fades, and known use counts as if it had been seen") {
  // Expert 0 was hot in an old topic.
  ExpertCache cache(std::vector{layer_of(4, {}, {0}, 1)}, {.margin = 2, .half_lives = {10, 10, 10}});
  for (int i = 0; i < 100; ++i) token(cache, {0});
  int n = 0;
  while (token(cache, {2}).empty()) ++n;
  CHECK(n > 3);
  CHECK(n < 60);
  // A known use has the same effect.
  ExpertCache::Layer known = layer_of(4, {}, {0}, 1);
  known.use = {1, 0, 0, 0};
  ExpertCache other(std::vector{known}, {.margin = 2, .half_lives = {10, 10, 10}});
  int m = 0;
  while (token(other, {2}).empty()) ++m;
  CHECK(std::abs(n - m) <= 2);
  // Weights do not overflow: 600 half-lives.
  for (int i = 0; i < 6000; ++i) token(cache, {i % 100 < 50 ? 1 : 3});
  CHECK((cache.has(0, 1) || cache.has(0, 3)));
}

TEST_CASE("expert cache: experts that are used evenly are hardly moved, and topics are followed") {
  std::mt19937 rng(3);
  constexpr int kExperts = 64;
  std::vector<int32_t> cached(16), all(kExperts);
  std::iota(cached.begin(), cached.end(), 0);
  std::iota(all.begin(), all.end(), 0);
  const auto choose = [&](int first, int n) {
    std::shuffle(all.begin(), all.end(), rng);
    std::vector<int32_t> used;
    for (const int32_t expert : all)
      if (expert >= first && expert < first + n && used.size() < 4) used.push_back(expert);
    return used;
  };
  ExpertCache::Layer layer = layer_of(kExperts, {}, cached, 16);
  layer.use.assign(kExperts, 4.0 / kExperts);
  const std::vector<ExpertCache::Layer> layers{layer};
  ExpertCache even(layers, {});
  size_t n_moved = 0;
  for (int i = 0; i < 4000; ++i) n_moved += token(even, choose(0, kExperts)).size();
  CHECK(n_moved < 4 * 4000 / 50);
  Exchanges none;
  CHECK(even.use(0, all, 0, none) == 0);  // exchanges that would not pay are not refused
  // It has learned that no count predicts anything.
  for (const double weight : even.weights()) CHECK(weight < 0.3);
  ExpertCache topics(layers, {});
  int n_caught = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<int32_t> used = choose(16 * (1 + i / 1000 % 3), 16);
    n_caught += static_cast<int>(std::ranges::count_if(used, [&](int32_t e) { return topics.has(0, e); }));
    token(topics, used);
  }
  CHECK(n_caught > 4 * 4000 * 8 / 10);
  const auto weights = topics.weights();
  CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) > 0.3);
}

}  // namespace hearth::test
