// Compares the sampler with a plain double reference of the definitions in request.h, and its draws with the
// distribution.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tests/engine/sampling/random_logits.h"
#include "tests/support/catch.h"

using namespace hearth;
using hearth::testing::random_logits;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The distribution to draw from, [n_vocab], by the definitions: sorts everything, without shortcuts.
std::vector<double> reference(std::span<const float> raw, const SamplingParams& params,
                              std::span<const int32_t> tokens, size_t n_prompt) {
  std::vector<float> logits(raw.begin(), raw.end());
  for (const auto& [token, bias] : params.logit_bias) {
    logits[static_cast<size_t>(token)] =
        bias <= -100 ? -kInfinity : logits[static_cast<size_t>(token)] + bias;
  }
  std::map<int32_t, int> generated;
  for (const int32_t token : tokens.subspan(n_prompt)) ++generated[token];
  for (const int32_t token : std::set<int32_t>(tokens.begin(), tokens.end())) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    const int n = generated.count(token) ? generated[token] : 0;
    logit -= (n > 0 ? params.presence_penalty : 0.0f);
    logit -= params.frequency_penalty * static_cast<float>(n);
  }
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    order.resize(static_cast<size_t>(params.top_k));
  }
  const auto weight = [&](size_t id) {
    return std::exp((static_cast<double>(logits[id]) - logits[order[0]]) /
                    static_cast<double>(params.temperature));
  };
  if (params.top_p < 1.0f) {
    double total = 0, mass = 0;
    for (const size_t id : order) total += weight(id);
    size_t n = 0;
    while (n < order.size() && (n == 0 || mass < static_cast<double>(params.top_p) * total))
      mass += weight(order[n++]);
    order.resize(n);
  }
  std::erase_if(order, [&](size_t id) { return weight(id) < static_cast<double>(params.min_p); });
  double total = 0;
  for (const size_t id : order) total += weight(id);
  std::vector<double> p(logits.size(), 0.0);
  for (const size_t id : order) p[id] = weight(id) / total;
  return p;
}

/// Samples a token without a constraint and with a state of its own.
SampleResult sample(Sampler& sampler, std::span<const float> logits, const SamplingParams& params,
                    std::span<const int32_t> tokens, int n_prompt) {
  SamplerState state;
  return sampler.sample(
      {.logits = logits, .params = params, .tokens = tokens, .n_prompt = n_prompt, .state = state});
}

// Draws n tokens with consecutive seeds and compares them with the distribution: no drawn token has
// probability 0, and Pearson's chi-square is within 5 standard deviations of its mean. Tokens that are
// expected less than five times are counted together, as one class.
void check_draws(std::span<const float> logits, SamplingParams params, std::span<const int32_t> tokens,
                 size_t n_prompt, int n = 20000) {
  const std::vector<double> p = reference(logits, params, tokens, n_prompt);
  Sampler sampler(static_cast<int>(logits.size()));
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < n; ++i) {
    params.seed = static_cast<uint64_t>(i);
    const SampleResult result = sample(sampler, logits, params, tokens, static_cast<int>(n_prompt));
    REQUIRE(result.error.empty());
    ++counts[static_cast<size_t>(result.token)];
  }
  double chi_square = 0, rest_expected = 0;
  int n_classes = 0, rest_counted = 0;
  for (size_t id = 0; id < p.size(); ++id) {
    if (p[id] == 0) REQUIRE(counts[id] == 0);
    const double expected = p[id] * n;
    if (expected < 5) {
      rest_expected += expected;
      rest_counted += counts[id];
      continue;
    }
    chi_square += (counts[id] - expected) * (counts[id] - expected) / expected;
    ++n_classes;
  }
  if (rest_expected >= 5) {
    chi_square += (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
    ++n_classes;
  }
  const double freedom = std::max(1, n_classes - 1);
  CHECK(chi_square <= freedom + 5 * std::sqrt(2 * freedom) + 5);
}

}  // namespace

TEST_CASE("sampler: temperature 0 takes the most likely, the lowest id of equals") {
  Sampler sampler(6);
  const std::vector<float> logits = {1, 5, 3, 5, -kInfinity, 2};
  SamplingParams params;
  params.temperature = 0;
  const std::vector<int32_t> tokens = {1, 1};
  CHECK(sample(sampler, logits, params, tokens, 1).token == 1);
  params.logit_bias = {{1, -0.5f}};
  CHECK(sample(sampler, logits, params, tokens, 1).token == 3);
  params.logit_bias = {{1, -100.0f}, {3, -100.0f}};
  CHECK(sample(sampler, logits, params, tokens, 1).token == 2);
  params.logit_bias = {{5, 100.0f}};
  CHECK(sample(sampler, logits, params, tokens, 1).token == 5);
  params.logit_bias = {};  // and nothing of that remains
  CHECK(sample(sampler, logits, params, tokens, 1).token == 1);
}

TEST_CASE("sampler: penalties as defined, over prompt and generated tokens") {
  Sampler sampler(4);
  SamplingParams params;
  params.temperature = 0;
  const std::vector<float> logits = {4.0f, 3.9f, 3.0f, -1.0f};
  const std::vector<int32_t> tokens = {0, 0, 1, 1, 2};  // prompt 0 0, generated 1 1 2
  params.repetition_penalty = 1.2f;                     // 0: 3.33, 1: 3.25, 2: 2.5
  CHECK(sample(sampler, logits, params, tokens, 2).token == 0);
  params.repetition_penalty = 8.0f;  // 0.5, 0.49, 0.375, -1: untouched
  CHECK(sample(sampler, logits, params, tokens, 2).token == 0);
  params.repetition_last_n = 3;  // 1 1 2: 0 is untouched
  CHECK(sample(sampler, logits, params, tokens, 2).token == 0);
  params.repetition_last_n = 0;
  CHECK(sample(sampler, std::vector<float>{0.1f, 0.2f, 4.0f, -1}, params, tokens, 2).token == 2);
  params.repetition_last_n = 1;  // 2: 0.5 and 0.2
  CHECK(sample(sampler, std::vector<float>{0.1f, 0.6f, 4.0f, -1}, params, tokens, 2).token == 1);
  params = {};
  params.temperature = 0;
  params.presence_penalty = 2.0f;  // 0 is in the prompt only
  CHECK(sample(sampler, logits, params, tokens, 2).token == 0);
  CHECK(sample(sampler, logits, params, tokens, 0).token == 0);  // all generated: 2, 1.9, 1, -1
  params.presence_penalty = 0;
  params.frequency_penalty = 1.5f;
  CHECK(sample(sampler, logits, params, std::vector<int32_t>{0, 0, 1, 1, 2}, 1).token == 0);  // 2.5, .9, 1.5
  CHECK(sample(sampler, logits, params, std::vector<int32_t>{0, 0, 1, 1, 2}, 0).token == 2);  // 1, .9, 1.5
  CHECK(sample(sampler, logits, params, std::vector<int32_t>{0, 0, 0, 1, 2, 2}, 0).token ==
        1);  // -.5, 2.4, 0
  // A negative logit is lowered by multiplying.
  params = {};
  params.temperature = 0;
  params.repetition_penalty = 2.0f;
  CHECK(sample(sampler, std::vector<float>{-1, -1.5f, -3, -3}, params, std::vector<int32_t>{0}, 1).token ==
        1);
}

TEST_CASE("sampler: NaN and infinite numbers never crash it") {
  Sampler sampler(5);
  SamplingParams params;
  const std::vector<int32_t> tokens = {0};
  for (const float temperature : {0.0f, 1.0f}) {
    params.temperature = temperature;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      const SampleResult result = sample(sampler, std::vector<float>{1, 2, bad, 4, 5}, params, tokens, 1);
      CHECK(result.token == -1);
      CHECK_THAT(std::string(result.error), ContainsSubstring("NaN"));
    }
    params.logit_bias = {{0, -100.0f}, {1, -100.0f}, {2, -100.0f}, {3, -100.0f}, {4, -101.0f}};
    const SampleResult result = sample(sampler, std::vector<float>{1, 2, 3, 4, 5}, params, tokens, 1);
    CHECK_THAT(std::string(result.error), ContainsSubstring("logit_bias"));
    params.logit_bias.clear();
  }
}

TEST_CASE("sampler: a temperature near 0 takes the most likely token, a huge one draws evenly") {
  Sampler sampler(50);
  const std::vector<float> logits = random_logits(50, 4, 3);
  const int32_t best = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  SamplingParams params;
  std::set<int32_t> seen;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    params.seed = seed;
    params.temperature = std::numeric_limits<float>::denorm_min();
    REQUIRE(sample(sampler, logits, params, {}, 0).token == best);
    params.temperature = std::numeric_limits<float>::max();
    seen.insert(sample(sampler, logits, params, {}, 0).token);
  }
  CHECK(seen.size() == 50);
}

TEST_CASE("sampler: draws follow the distribution the parameters describe") {
  const std::vector<float> logits = random_logits(400, 11, 2);
  const std::vector<int32_t> tokens = {5, 5, 9, 300, 9, 9, 20};
  SamplingParams params;
  SECTION("nothing filtered") {}
  SECTION("temperature") { params.temperature = 0.6f; }
  SECTION("top_k") { params.top_k = 7; }
  SECTION("top_k beyond the short list") { params.top_k = 200; }
  SECTION("top_k beyond the vocabulary") { params.top_k = 4000; }
  SECTION("top_p") { params.top_p = 0.8f; }
  SECTION("top_p that needs more than the first candidates") {
    params.top_p = 0.99f;
    params.temperature = 3;
  }
  SECTION("top_p of next to nothing keeps one") { params.top_p = 1e-6f; }
  SECTION("min_p") { params.min_p = 0.05f; }
  SECTION("top_k, then top_p of what is left, then min_p") {
    params.top_k = 20;
    params.top_p = 0.7f;
    params.min_p = 0.3f;
  }
  SECTION("top_p, min_p, temperature") {
    params.temperature = 1.5f;
    params.top_p = 0.9f;
    params.min_p = 0.02f;
  }
  SECTION("bias and penalties") {
    params.logit_bias = {{5, 3.0f}, {17, -100.0f}, {18, 4.5f}};
    params.repetition_penalty = 1.3f;
    params.presence_penalty = -1.0f;
    params.frequency_penalty = 0.7f;
    params.top_p = 0.95f;
  }
  check_draws(logits, params, tokens, 3);
}

TEST_CASE("sampler: equal logits are equally likely, and filters cut among them by id") {
  const std::vector<float> logits(300, 1.0f);
  SamplingParams params;
  check_draws(logits, params, {}, 0);
  params.top_k = 10;
  check_draws(logits, params, {}, 0);
  params.top_k = 0;
  params.top_p = 0.5f;
  check_draws(logits, params, {}, 0);
}

TEST_CASE("sampler: random parameters never give a token outside the reference's set") {
  std::mt19937_64 random(77);
  Sampler sampler(1000);
  const auto pick = [&](std::vector<float> values) { return values[random() % values.size()]; };
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> logits = random_logits(1000, random(), pick({0.1f, 1, 4, 20}));
    SamplingParams params;
    params.temperature = pick({0.3f, 1, 2});
    params.top_k = static_cast<int>(pick({0, 0, 1, 5, 130, 999}));
    params.top_p = pick({1, 0.1f, 0.5f, 0.9f, 0.999f});
    params.min_p = pick({0, 0, 0.01f, 0.5f});
    params.repetition_penalty = pick({1, 1, 0.7f, 1.5f});
    params.frequency_penalty = pick({0, 0, 2, -2});
    if (random() % 2 == 0) params.logit_bias = {{static_cast<int32_t>(random() % 1000), 5.0f}};
    std::vector<int32_t> tokens(1 + random() % 50);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 1000);
    const size_t n_prompt = 1 + random() % tokens.size();
    const std::vector<double> p = reference(logits, params, tokens, n_prompt);
    for (int draw = 0; draw < 20; ++draw) {
      params.seed = random();
      const SampleResult result = sample(sampler, logits, params, tokens, static_cast<int>(n_prompt));
      REQUIRE(result.error.empty());
      REQUIRE(p[static_cast<size_t>(result.token)] > 0);
    }
  }
}

TEST_CASE("sampler: the same seed and index give the same token, whatever came between") {
  Sampler one(200), other(200);
  const std::vector<float> logits = random_logits(200, 3, 1);
  SamplingParams params;
  params.seed = 42;
  SamplingParams loud;
  loud.logit_bias = {{3, 50.0f}};
  loud.repetition_penalty = 5;
  loud.frequency_penalty = 2;
  std::vector<int32_t> tokens = {1, 2, 3};
  std::set<int32_t> seen;
  for (int i = 0; i < 50; ++i) {
    const int32_t token = sample(one, logits, params, tokens, 3).token;
    sample(other, logits, loud, tokens, 1);
    REQUIRE(sample(other, logits, params, tokens, 3).token == token);
    seen.insert(token);
    tokens.push_back(token);
  }
  CHECK(seen.size() > 20);  // the index changes the draw
  // The index counts generated tokens: the prompt's length does not matter.
  CHECK(sample(one, logits, params, std::vector<int32_t>{1, 2, 3, 4}, 3).token ==
        sample(one, logits, params, std::vector<int32_t>{1, 2}, 1).token);
}

TEST_CASE("sampler: only allowed and unbanned tokens are drawn, whatever the bias; none left is an error") {
  Sampler sampler(130);
  const std::vector<float> logits = random_logits(130, 5, 3);
  SamplingParams params;
  params.logit_bias = {{7, 100.0f}};
  TokenMask allowed(130);
  for (const int32_t token : {1, 63, 64, 129}) allowed.allow(token);
  const std::vector<int32_t> banned = {64}, every = {1, 63, 64, 129};
  SamplerState state;
  std::set<int32_t> seen;
  for (params.seed = 0; params.seed < 3000; ++params.seed) {
    params.temperature = params.seed % 2 == 0 ? 3.0f : 50.0f;
    params.top_p = params.seed % 3 == 0 ? 0.999f : 1.0f;
    seen.insert(sampler
                    .sample({.logits = logits,
                             .params = params,
                             .tokens = {},
                             .n_prompt = 0,
                             .allowed = &allowed,
                             .banned = banned,
                             .state = state})
                    .token);
  }
  CHECK(seen == std::set<int32_t>{1, 63, 129});
  const SampleResult none = sampler.sample({.logits = logits,
                                            .params = params,
                                            .tokens = {},
                                            .n_prompt = 0,
                                            .allowed = &allowed,
                                            .banned = every,
                                            .state = state});
  CHECK(none.token == -1);
  CHECK_THAT(std::string(none.error), ContainsSubstring("constraints leave no token"));
}

TEST_CASE("sampler: XTC with a threshold of 0 leaves the least likely token that may be drawn") {
  Sampler sampler(130);
  SamplingParams params;
  params.xtc_probability = 1;
  params.xtc_threshold = 0;
  params.logit_bias = {{5, -100.0f}};
  TokenMask allowed(130);
  for (const int32_t token : {5, 6, 70, 129}) allowed.allow(token);
  std::vector<float> logits(130, 0.0f);
  logits[6] = 1.0f;
  logits[70] = 0.5f;
  logits[129] = 2.0f;
  const std::vector<int32_t> banned = {129};
  SamplerState state;
  for (params.seed = 0; params.seed < 20; ++params.seed) {
    CHECK(sampler
              .sample({.logits = logits,
                       .params = params,
                       .tokens = {},
                       .n_prompt = 0,
                       .allowed = &allowed,
                       .banned = banned,
                       .state = state})
              .token == 70);
  }
}

TEST_CASE("sampler: Mirostat keeps the surprise of what it draws near tau") {
  Sampler sampler(500);
  SamplingParams params;
  params.mirostat = true;
  params.mirostat_tau = 3.0f;
  SamplerState state;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < 400; ++i) {
    const std::vector<float> logits = random_logits(500, i, 2);
    tokens.push_back(
        sampler.sample({.logits = logits, .params = params, .tokens = tokens, .n_prompt = 0, .state = state})
            .token);
  }
  REQUIRE(state.mirostat_bits.has_value());
  // The bound only moves by the surprise's difference from tau, so its final value tells the mean.
  const double mean_excess = (2 * 3.0 - *state.mirostat_bits) / 0.1 / 400;
  CHECK(std::abs(mean_excess) < 0.5);
}

TEST_CASE("uniform_at: even over indices of one seed, over seeds at one index, and over both") {
  const int mode = GENERATE(0, 1, 2);
  constexpr int kBins = 64, kDraws = 64000;
  std::vector<int> counts(kBins, 0);
  double correlation = 0, previous = 0.5;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = mode == 0 ? uniform_at(7, i) : mode == 1 ? uniform_at(i, 0) : uniform_at(i, i);
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    ++counts[static_cast<size_t>(u * kBins)];
    correlation += (u - 0.5) * (previous - 0.5);
    previous = u;
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(chi_square < 63 + 5 * std::sqrt(2.0 * 63));
  // The mean of n products of independent uniforms has the standard deviation 1/12 sqrt(n).
  CHECK(std::abs(correlation) < 5.0 / 12 * std::sqrt(static_cast<double>(kDraws)));
}
