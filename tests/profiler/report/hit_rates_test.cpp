// Hit rates of placements, by hand and by property.
#include "profiler/report/hit_rates.h"

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

// Layer 0's neurons are hot, layer 1 has one that is.
const ActivityProfile kCounted{{{9, 8, 7, 6}, {1, 5, 0, 0}}};

TEST_CASE("hit rates: what is chosen of what was needed") {
  const std::vector<std::vector<int32_t>> order = {{0, 1, 2, 3}, {1, 0, 2, 3}};
  const ActivityProfile needed{{{4, 0, 2, 2}, {1, 1, 0, 0}}};
  CHECK(hit_rate(needed, order, {0, 0}) == 0);
  CHECK(hit_rate(needed, order, {4, 4}) == 1);
  CHECK(hit_rate(needed, order, {3, 1}) == Approx(0.7));
  CHECK(hit_rate({{{0, 0, 0, 0}, {0, 0, 0, 0}}}, order, {4, 4}) == 0);
}

const LayerMask kBoth = {true, true};

TEST_CASE("hit rates: the most active of some layers, and as many of each") {
  using N = std::vector<int64_t>;
  CHECK(most_active(kCounted, 0, kBoth) == N{0, 0});
  CHECK(most_active(kCounted, 4, kBoth) == N{4, 0});
  CHECK(most_active(kCounted, 5, kBoth) == N{4, 1});
  CHECK(most_active(kCounted, 8, kBoth) == N{4, 4});
  CHECK(most_active(kCounted, 99, kBoth) == N{4, 4});
  CHECK(most_active(kCounted, 3, {false, true}) == N{0, 3});
  CHECK(even(5, kBoth) == N{3, 2});
  CHECK(even(4, {false, true}) == N{0, 4});
  CHECK(even(0, kBoth) == N{0, 0});
}

TEST_CASE("hit rates: placements of as many neurons are compared") {
  const ReportHits hits = compare_placements(kCounted, kCounted, PlannedHot{{3, 1}, kBoth});
  CHECK(hits.planned);
  CHECK(hits.share == 0.5);
  REQUIRE(hits.rates.size() == 4);
  CHECK(hits.rates[0].hit_rate == Approx(29.0 / 36));  // 9 8 7, 5
  CHECK(hits.rates[1].hit_rate == Approx(30.0 / 36));  // 9 8 7 6
  CHECK(hits.rates[2].hit_rate == Approx(23.0 / 36));  // 9 8, 5 1
  CHECK(hits.rates[3].hit_rate == 0.5);
  REQUIRE(hits.by_activity.size() == hits.even.size());
  CHECK(hits.by_activity.front() == 0);
  CHECK(hits.by_activity.back() == 1);

  // A layer of the CPU has no hot neurons, whoever chooses.
  const ReportHits one = compare_placements(kCounted, kCounted, PlannedHot{{0, 2}, {false, true}});
  CHECK(one.rates[0].hit_rate == Approx(6.0 / 36));
  CHECK(one.rates[1].hit_rate == Approx(6.0 / 36));
  CHECK(one.rates[2].hit_rate == Approx(6.0 / 36));
  CHECK(one.rates[3].hit_rate == Approx(3.0 / 36));

  const ReportHits unplanned = compare_placements(kCounted, kCounted, std::nullopt);
  CHECK_FALSE(unplanned.planned);
  CHECK(unplanned.share == 0.25);
  CHECK(unplanned.rates.size() == 3);
}

TEST_CASE("hit rates: no choice by what was needed itself is beaten, and none is above one") {
  std::mt19937 random(7);
  std::exponential_distribution<double> activity(1);
  for (int round = 0; round < 20; ++round) {
    ActivityProfile counted;
    for (int layer = 0; layer < 5; ++layer) {
      std::vector<double>& counts = counted.counts.emplace_back();
      for (int j = 0; j < 64; ++j) counts.push_back(activity(random) * (layer + 1));
    }
    PlannedHot planned{{}, LayerMask(5, true)};
    for (int layer = 0; layer < 5; ++layer) planned.n.push_back(1 + static_cast<int64_t>(random() % 64));
    const ReportHits hits = compare_placements(counted, counted, planned);
    for (const ReportHitRate& rate : hits.rates) CHECK(rate.hit_rate <= hits.rates[1].hit_rate + 1e-12);
    for (size_t i = 0; i < hits.even.size(); ++i) {
      CHECK(hits.even[i] <= hits.by_activity[i] + 1e-12);
      CHECK(hits.by_activity[i] <= 1 + 1e-12);
      if (i > 0) CHECK(hits.by_activity[i] >= hits.by_activity[i - 1]);
    }
  }
}

}  // namespace
}  // namespace hearth::testing
