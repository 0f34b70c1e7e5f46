// Hit rates of placements, by hand and by property.
#include "profiler/report/hit_rates.h"

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "profiler/rate_text.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

// Layer 0's neurons are hot, layer 1 has one that is.
const ActivityProfile kCounted{{{9, 8, 7, 6}, {1, 5, 0, 0}}};

int64_t sum(const std::vector<int64_t>& n) { return std::accumulate(n.begin(), n.end(), int64_t{0}); }

TEST_CASE("hit rates: what is chosen of what was needed") {
  const std::vector<std::vector<int32_t>> order = {{0, 1, 2, 3}, {1, 0, 2, 3}};
  const ActivityProfile needed{{{4, 0, 2, 2}, {1, 1, 0, 0}}};
  CHECK(hit_rate(needed, order, {0, 0}) == 0);
  CHECK(hit_rate(needed, order, {4, 4}) == 1);
  CHECK(hit_rate(needed, order, {3, 1}) == Approx(0.7));
  CHECK(hit_rate({{{0, 0, 0, 0}, {0, 0, 0, 0}}}, order, {4, 4}) == 0);
}

TEST_CASE("hit rates: the most active of all layers") {
  CHECK(most_active_of_all(kCounted, 0) == std::vector<int64_t>{0, 0});
  CHECK(most_active_of_all(kCounted, 4) == std::vector<int64_t>{4, 0});
  CHECK(most_active_of_all(kCounted, 5) == std::vector<int64_t>{4, 1});
  CHECK(most_active_of_all(kCounted, 8) == std::vector<int64_t>{4, 4});
  CHECK(most_active_of_all(kCounted, 99) == std::vector<int64_t>{4, 4});
}

TEST_CASE("hit rates: placements of as many neurons are compared") {
  const ReportHits hits = compare_placements(kCounted, kCounted, {3, 1});
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

  const ReportHits unplanned = compare_placements(kCounted, kCounted, {});
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
    std::vector<int64_t> planned;
    for (int layer = 0; layer < 5; ++layer) planned.push_back(static_cast<int64_t>(random() % 65));
    if (sum(planned) == 0) continue;
    const ReportHits hits = compare_placements(counted, counted, planned);
    for (const ReportHitRate& rate : hits.rates) CHECK(rate.hit_rate <= hits.rates[1].hit_rate + 1e-12);
    for (size_t i = 0; i < hits.even.size(); ++i) {
      CHECK(hits.even[i] <= hits.by_activity[i] + 1e-12);
      CHECK(hits.by_activity[i] <= 1 + 1e-12);
      if (i > 0) CHECK(hits.by_activity[i] >= hits.by_activity[i - 1]);
    }
  }
}

TEST_CASE("rates for people have three digits, or all before the point") {
  CHECK(rate_text(0) == "0");
  CHECK(rate_text(0.03141) == "0.0314");
  CHECK(rate_text(8.214) == "8.21");
  CHECK(rate_text(123.4) == "123");
  CHECK(rate_text(999.4) == "999");
  CHECK(rate_text(999.6) == "1,000");
  CHECK(rate_text(12345.4) == "12,345");
}

}  // namespace
}  // namespace hearth::testing
