// Histograms of planted scores: what a threshold skips of them, and how thresholds are dealt out to layers.
#include "profiler/calibration/score_histogram.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

// A bin is at most 1/16 of an octave wide and counts as even inside.
constexpr double kBinWidth = 1.0 / 32;

/// Scores scale * u, u uniform in [0, 1): share s lies under scale * s, with the energy n scale^2 s^3 / 3.
ScoreHistogram uniform(float scale, int n = 100'000) {
  ScoreHistogram histogram;
  for (int i = 0; i < n; ++i) histogram.add(scale * (static_cast<float>(i) + 0.5f) / static_cast<float>(n));
  return histogram;
}

}  // namespace

TEST_CASE("score histogram: share and energy under a threshold") {
  const ScoreHistogram histogram = uniform(3);
  for (const double share : {0.01, 0.1, 0.37, 0.5, 0.93}) {
    const ScoreHistogram::Skipped skipped = histogram.below(3 * share);
    CHECK(skipped.share == Approx(share).epsilon(1e-3));
    CHECK(skipped.energy == Approx(1e5 * 9 * share * share * share / 3).epsilon(kBinWidth));
    CHECK(histogram.quantile(share) == Approx(3 * share).epsilon(1e-3));
  }
  CHECK(histogram.below(0).share == 0);
  CHECK(histogram.below(1e30).share == 1);
  CHECK(ScoreHistogram().below(1).share == 0);
}

TEST_CASE("score histogram: scores of any size") {
  ScoreHistogram histogram;
  const float huge = std::numeric_limits<float>::max(), inf = std::numeric_limits<float>::infinity();
  for (const float score : {0.0f, 1e-45f, 1e-30f, 1.0f, huge, inf, std::nanf("")}) histogram.add(score);
  CHECK(histogram.below(1e-37).share == Approx(2.0 / 7));
  CHECK(histogram.below(1e-10).share == Approx(3.0 / 7));
  CHECK(histogram.below(2).share == Approx(4.0 / 7));
  CHECK(histogram.below(2).energy == Approx(1));
  // No threshold a float can be skips what is not finite.
  CHECK(histogram.below(huge).share <= 5.0 / 7 + 1e-9);
}

TEST_CASE("thresholds: equal weights, equal thresholds; they skip the share asked for") {
  const std::vector<ScoreHistogram> layers = {uniform(1), uniform(4)};
  const std::vector<double> weights = {1, 1};
  for (const double share : {0.1, 0.4, 0.6, 0.9}) {
    const std::vector<float> thresholds = thresholds_for(layers, weights, share);
    CHECK(thresholds[0] == Approx(thresholds[1]).epsilon(1e-6));
    CHECK((layers[0].below(thresholds[0]).share + layers[1].below(thresholds[1]).share) / 2 ==
          Approx(share).epsilon(1e-3));
  }
  CHECK(thresholds_for(layers, weights, 0) == std::vector<float>{0, 0});
}

TEST_CASE("thresholds: no other division of the same share costs less") {
  const std::vector<ScoreHistogram> layers = {uniform(1), uniform(4), uniform(0.5f)};
  const std::vector<double> weights = {5, 0.2, 40};
  const double share = 0.5;
  const std::vector<float> thresholds = thresholds_for(layers, weights, share);
  const auto cost = [&](const std::vector<double>& shares) {
    double sum = 0;
    for (size_t l = 0; l < 3; ++l) sum += weights[l] * layers[l].below(layers[l].quantile(shares[l])).energy;
    return sum;
  };
  std::vector<double> best;
  for (size_t l = 0; l < 3; ++l) {
    best.push_back(layers[l].below(thresholds[l]).share);
    CHECK(weights[l] * std::pow(thresholds[l], 2) ==
          Approx(weights[0] * std::pow(thresholds[0], 2)).epsilon(1e-4));
  }
  CHECK(best[0] + best[1] + best[2] == Approx(3 * share).epsilon(1e-3));
  // Moved from one layer to another, a twentieth of a layer's neurons costs more there than it saves here.
  for (size_t from = 0; from < 3; ++from) {
    for (size_t to = 0; to < 3; ++to) {
      if (from == to || best[from] < 0.06 || best[to] > 0.94) continue;
      std::vector<double> moved = best;
      moved[from] -= 0.05;
      moved[to] += 0.05;
      CHECK(cost(moved) > cost(best));
    }
  }
}

TEST_CASE("thresholds: extreme weights and shares stay finite") {
  const std::vector<ScoreHistogram> layers = {uniform(1e-6f), uniform(1e6f)};
  for (const double share : {1e-6, 0.5, 0.999}) {
    for (const float threshold : thresholds_for(layers, std::vector<double>{1e30, 1e-30}, share)) {
      CHECK(std::isfinite(threshold));
      CHECK(threshold >= 0);
    }
  }
}

}  // namespace hearth::test
