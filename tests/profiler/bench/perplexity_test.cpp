// Perplexity compared with its definition, computed from the logits of each window separately.
#include "profiler/bench/perplexity.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/scripted_model.h"

namespace hearth::test {
namespace {

std::vector<int32_t> text_of(int n, int n_vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((i * i * 13 + 7 * i + 3) % n_vocab);
  return tokens;
}

long double minus_log_p(std::span<const float> logits, int32_t token) {
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  return std::log(sum) - logits[static_cast<size_t>(token)];
}

struct Expected {
  long double perplexity = 0, standard_error = 0;
  int64_t n_scored = 0;
};

/// scores: the negative log-probabilities of the scored tokens. The perplexity is the exponential of their
/// mean. Its error is the mean's error, by the sample variance, propagated through the exponential.
Expected expected_of(const std::vector<long double>& scores) {
  const long double n = static_cast<long double>(scores.size());
  long double mean = 0, variance = 0;
  for (const long double score : scores) mean += score / n;
  for (const long double score : scores) variance += (score - mean) * (score - mean) / n;
  return {std::exp(mean), std::exp(mean) * std::sqrt(variance / (n - 1)),
          static_cast<int64_t>(scores.size())};
}

/// Computes the perplexity by its definition: windows do not overlap, bos (unless -1) replaces each window's
/// first token, and the second half is scored, except for its first token.
Expected brute_force(const std::vector<int32_t>& tokens, int n_context, int32_t bos, int n_vocab) {
  std::vector<long double> scores;
  std::vector<float> logits(static_cast<size_t>(n_vocab));
  const size_t window = static_cast<size_t>(n_context);
  for (size_t begin = 0; begin + window <= tokens.size(); begin += window) {
    for (size_t i = window / 2 + 1; i < window; ++i) {  // i is the predicted token
      std::vector<int32_t> before(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                  tokens.begin() + static_cast<std::ptrdiff_t>(begin + i));
      if (bos >= 0) before[0] = bos;
      ScriptedModel::hashed()(before, logits);
      scores.push_back(minus_log_p(logits, tokens[begin + i]));
    }
  }
  return expected_of(scores);
}

void check_same(const PerplexityResult& found, const Expected& expected) {
  CHECK(found.n_scored == expected.n_scored);
  CHECK(found.perplexity == Approx(static_cast<double>(expected.perplexity)).epsilon(1e-9));
  CHECK(found.standard_error == Approx(static_cast<double>(expected.standard_error)).epsilon(1e-6));
}

}  // namespace

TEST_CASE("perplexity: steps have at most the requested number of tokens, and the result is the same") {
  int longest = 0;
  ScriptedModel::Options options;
  options.before_step = [&](const Batch& batch) { longest = std::max(longest, batch.n_tokens()); };
  ScriptedModel model(options);
  const std::vector<int32_t> tokens = text_of(250, 97);
  const double expected = measure_perplexity(model, tokens, 100, -1, {}).perplexity;
  CHECK(longest > 7);
  longest = 0;
  CHECK(measure_perplexity(model, tokens, 100, -1, {}, 7).perplexity == expected);
  CHECK(longest == 7);
}

TEST_CASE("perplexity: it matches the definition for even and odd windows, with and without a begin token") {
  const int n_context = GENERATE(4, 5, 16, 33, 100);
  const int32_t bos = GENERATE(-1, 0, 1);
  ScriptedModel model(ScriptedModel::Options{});  // 97 tokens, steps of 64, 32 rows of logits
  const std::vector<int32_t> tokens = text_of(250, 97);
  int calls = 0;
  const PerplexityResult found =
      measure_perplexity(model, tokens, n_context, bos, [&](const PerplexityResult& so_far, int n_windows) {
        CHECK(so_far.n_windows == ++calls);
        CHECK(n_windows == 250 / n_context);
        CHECK(std::isfinite(so_far.perplexity));
      });
  INFO("window " << n_context << ", begin token " << bos);
  CHECK(found.n_windows == 250 / n_context);
  CHECK(calls == found.n_windows);
  // A window of n tokens scores the n - n/2 - 1 tokens after the first of its second half.
  CHECK(found.n_scored == static_cast<int64_t>(found.n_windows) * (n_context - n_context / 2 - 1));
  check_same(found, brute_force(tokens, n_context, bos, 97));
}

TEST_CASE("perplexity: a text of exactly one window is enough, one token less is refused with a sentence") {
  ScriptedModel model(ScriptedModel::Options{});
  const std::vector<int32_t> tokens = text_of(32, 97);
  CHECK(measure_perplexity(model, tokens, 32, -1, {}).n_windows == 1);
  CHECK_THROWS_AS(measure_perplexity(model, tokens, 33, -1, {}), std::invalid_argument);
  CHECK_THROWS_WITH(measure_perplexity(model, tokens, 33, -1, {}), ContainsSubstring("32 tokens") &&
                                                                       ContainsSubstring("33") &&
                                                                       ContainsSubstring("--window"));
  CHECK_THROWS_WITH(measure_perplexity(model, {}, 4, -1, {}), ContainsSubstring("0 tokens"));
}

TEST_CASE(
    "perplexity: it is 1 for a model that knows the text, and the vocabulary's size for a uniform one") {
  ScriptedModel::Options options;
  options.script = [](std::span<const int32_t> history, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    logits[static_cast<size_t>((history.back() + 1) % 97)] = 60.0f;
  };
  std::vector<int32_t> tokens;
  for (int i = 0; i < 97; ++i) tokens.push_back(i);
  ScriptedModel knowing(options);
  CHECK(measure_perplexity(knowing, tokens, 32, -1, {}).perplexity == Approx(1.0));
  options.script = [](std::span<const int32_t>, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), -3.0f);
  };
  ScriptedModel indifferent(options);
  const PerplexityResult flat = measure_perplexity(indifferent, tokens, 32, -1, {});
  CHECK(flat.perplexity == Approx(97.0));
  CHECK(flat.standard_error == Approx(0.0).margin(1e-5));
  // Logits far from zero must neither overflow nor vanish.
  options.script = [](std::span<const int32_t>, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 1e30f);
  };
  ScriptedModel large(options);
  CHECK(measure_perplexity(large, tokens, 32, -1, {}).perplexity == Approx(97.0));
}

TEST_CASE("perplexity: a real model's is right window by window") {
  LoadOptions options;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch/llama.gguf";
  options.n_threads = 1;
  options.n_slots = 1;
  options.prefill_chunk = 7;
  const auto model = ModelRuntime::load(options);
  const std::vector<int32_t> tokens = text_of(64, 259);
  std::vector<long double> scores;
  for (const size_t begin : {size_t{0}, size_t{30}}) {
    std::vector<int32_t> window(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                tokens.begin() + static_cast<std::ptrdiff_t>(begin + 30));
    window[0] = 1;
    const std::vector<float> logits = testing::logits_of(*model, window, 30);
    for (size_t i = 15; i + 1 < 30; ++i) {
      scores.push_back(minus_log_p(std::span(logits).subspan(i * 259, 259), window[i + 1]));
    }
  }
  check_same(measure_perplexity(*model, tokens, 30, 1, {}), expected_of(scores));
}

}  // namespace hearth::test
