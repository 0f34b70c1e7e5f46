// Histograms of planted scores: the share of scores that a threshold skips, and the thresholds for a share.
// Also tests the search for a share with planted costs.
#include "profiler/calibration/threshold_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// Scores scale * u, with u uniform in [0, 1): the share s is below scale * s.
ScoreHistogram uniform(float scale, int n = 100'000) {
  ScoreHistogram histogram;
  for (int i = 0; i < n; ++i) histogram.add(scale * (static_cast<float>(i) + 0.5f) / static_cast<float>(n));
  return histogram;
}

const double kStep = std::ldexp(1.0, -kShareSteps);

}  // namespace

TEST_CASE("score histogram: the share below a threshold is right") {
  const ScoreHistogram histogram = uniform(3);
  for (const double share : {0.01, 0.1, 0.37, 0.5, 0.93}) {
    CHECK(histogram.share_below(3 * share) == Approx(share).epsilon(1e-3));
    CHECK(histogram.quantile(share) == Approx(3 * share).epsilon(1e-3));
  }
  CHECK(histogram.share_below(0) == 0);
  CHECK(histogram.share_below(1e30) == 1);
  CHECK(ScoreHistogram().share_below(1) == 0);
}

TEST_CASE("score histogram: scores of any size are counted") {
  ScoreHistogram histogram;
  const float huge = std::numeric_limits<float>::max(), inf = std::numeric_limits<float>::infinity();
  for (const float score : {0.0f, 1e-45f, 1e-30f, 1.0f, huge, inf, std::nanf("")}) histogram.add(score);
  CHECK(histogram.share_below(1e-37) == Approx(2.0 / 7));
  CHECK(histogram.share_below(1e-10) == Approx(3.0 / 7));
  CHECK(histogram.share_below(2) == Approx(4.0 / 7));
  // No threshold that a float can hold skips values that are not finite.
  CHECK(histogram.share_below(huge) <= 5.0 / 7 + 1e-9);
}

TEST_CASE("thresholds: every layer skips the requested share") {
  const std::vector<ScoreHistogram> layers = {uniform(1), uniform(4), uniform(1e-6f), uniform(1e6f)};
  for (const double share : {1e-6, 0.1, 0.4, 0.9, 0.999}) {
    const std::vector<float> thresholds = thresholds_for(layers, share);
    for (size_t l = 0; l < layers.size(); ++l) {
      CHECK(layers[l].share_below(thresholds[l]) == Approx(share).margin(1e-3));
    }
  }
  CHECK(thresholds_for(layers, 0) == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("share search: it finds the largest share under a limit") {
  for (const double limit : {0.003, 0.1, 0.25, 0.4567, 0.8, 0.999, 1.0}) {
    int n_looks = 0;
    bool judged_in_full = false;
    const double found = largest_share([&](double share, bool in_full) {
      ++n_looks;
      judged_in_full = in_full;
      return share <= limit;
    });
    CHECK(found <= limit);
    CHECK(found > limit - kStep - 1e-12);
    if (found > 0) CHECK(judged_in_full);
    CHECK(n_looks <= kShareSteps + 1);
  }
}

TEST_CASE("share search: it gives 0 if nothing may be skipped") {
  CHECK(largest_share([](double, bool) { return false; }) == 0);
}

TEST_CASE("share search: a share that fails the full test is reduced") {
  std::vector<double> full;
  const double found = largest_share([&](double share, bool in_full) {
    if (in_full) full.push_back(share);
    return share <= (in_full ? 0.4 : 0.5);
  });
  CHECK(found <= 0.4);
  CHECK(found > 0.3);
  CHECK(full.back() == found);
  CHECK(std::ranges::is_sorted(full, std::greater<>()));
  // A judge that refuses everything in full tests.
  CHECK(largest_share([](double, bool in_full) { return !in_full; }) == 0);
}

}  // namespace hearth::test
