// Log-probabilities and selection compared with the plain definitions in double.
#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "engine/sampling/softmax_weights.h"
#include "tests/engine/sampling/random_logits.h"
#include "tests/support/catch.h"

using namespace hearth;
using hearth::testing::random_logits;

namespace {

constexpr float kNoBound = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double reference_log_sum_exp(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit) - max);
  return static_cast<double>(max + std::log(sum));
}

std::vector<int32_t> reference_order(std::span<const float> logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

}  // namespace

TEST_CASE("exp_nonpositive is exp to single precision") {
  double worst = 0;
  for (float x = 0; x > -87.0f; x -= 0.0007f) {
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp_nonpositive(x)) - expected) / expected);
  }
  CHECK(worst <= 2e-7);
  CHECK(exp_nonpositive(0) == 1);
  CHECK(exp_nonpositive(-0.0f) == 1);
  CHECK(exp_nonpositive(-std::numeric_limits<float>::denorm_min()) == 1);
  CHECK(exp_nonpositive(-87.7f) == 0);
  CHECK(exp_nonpositive(-88) == 0);
  CHECK(exp_nonpositive(-1e30f) == 0);
  CHECK(exp_nonpositive(-kNoBound) == 0);
}

TEST_CASE("log_sum_exp is that of the whole row, at any size") {
  for (const size_t n : {1u, 2u, 15u, 16u, 17u, 511u, 512u, 513u, 49152u}) {
    for (const float spread : {0.0f, 1.0f, 30.0f, 1e4f}) {
      const std::vector<float> logits = random_logits(n, n, spread);
      CHECK(log_sum_exp(logits) == Approx(reference_log_sum_exp(logits)).epsilon(1e-14).margin(3e-7));
    }
  }
}

TEST_CASE("a row that is not a distribution is reported, wherever the bad number is") {
  for (const size_t n : {1u, 5u, 16u, 40u}) {
    for (size_t at = 0; at < n; ++at) {
      for (const float bad : {kNan, kNoBound}) {
        std::vector<float> logits = random_logits(n, 3, 2);
        logits[at] = bad;
        CHECK(std::isnan(checked_max(logits)));
        CHECK(std::isnan(log_sum_exp(logits)));
        TokenEvent event;
        std::vector<int32_t> scratch;
        CHECK_FALSE(add_logprobs(logits, 1, event, scratch));
        CHECK(event.top.empty());
      }
    }
    CHECK(std::isnan(checked_max(std::vector<float>(n, -kNoBound))));
  }
  const std::vector<float> partly = {-kNoBound, 1.0f, -kNoBound};
  CHECK(checked_max(partly) == 1.0f);
  CHECK(log_sum_exp(partly) == 1.0);
}

TEST_CASE("select_top is the beginning of the sorted row, equal logits by id") {
  std::mt19937_64 random(5);
  for (const size_t n : {1u, 2u, 100u, 1000u, 5000u}) {
    std::vector<float> logits(n);
    for (float& logit : logits) logit = static_cast<float>(random() % 200);  // ties everywhere
    logits[n / 2] = -kNoBound;
    const std::vector<int32_t> order = reference_order(logits);
    for (const size_t k : {0u, 1u, 2u, 20u, 127u, 128u, 129u, 999u, 5000u}) {
      if (k > n) continue;
      std::vector<int32_t> ids = {9, 9, 9};
      select_top(logits, static_cast<int>(k), ids);
      CHECK(ids == std::vector<int32_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k)));
    }
  }
}

TEST_CASE("add_logprobs tells the chosen token's and the most likely ones' log-probabilities") {
  const std::vector<float> logits = random_logits(300, 8, 3);
  const double total = reference_log_sum_exp(logits);
  const std::vector<int32_t> order = reference_order(logits);
  for (const int n_top : {-1, 0, 1, 5, 300, 1000}) {
    TokenEvent event{.token = 17, .logprob = 0.0f, .top = {}};
    std::vector<int32_t> scratch;
    REQUIRE(add_logprobs(logits, n_top, event, scratch));
    CHECK(event.logprob == Approx(logits[17] - total));
    REQUIRE(event.top.size() == static_cast<size_t>(std::clamp(n_top, 0, 300)));
    for (size_t i = 0; i < event.top.size(); ++i) {
      REQUIRE(event.top[i].token == order[i]);
      REQUIRE(event.top[i].logprob == Approx(logits[static_cast<size_t>(order[i])] - total));
    }
  }
}
