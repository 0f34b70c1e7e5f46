// The search on planted costs.
#include "profiler/calibration/share_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const double kStep = std::ldexp(1.0, -kShareSteps);

}  // namespace

TEST_CASE("share search: the largest share under a limit") {
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

TEST_CASE("share search: nothing may be skipped") {
  CHECK(largest_share([](double, bool) { return false; }) == 0);
}

TEST_CASE("share search: what was let through too soon is taken back") {
  std::vector<double> full;
  const double found = largest_share([&](double share, bool in_full) {
    if (in_full) full.push_back(share);
    return share <= (in_full ? 0.4 : 0.5);
  });
  CHECK(found <= 0.4);
  CHECK(found > 0.3);
  CHECK(full.back() == found);
  CHECK(std::ranges::is_sorted(full, std::greater<>()));
  // A judge that refuses everything in the end.
  CHECK(largest_share([](double, bool in_full) { return !in_full; }) == 0);
}

}  // namespace hearth::test
