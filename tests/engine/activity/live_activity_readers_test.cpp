// Other threads read sampled steps while the engine thread writes them.
#include <atomic>
#include <numeric>
#include <thread>

#include "engine/activity/live_activity.h"
#include "tests/support/catch.h"

namespace hearth::test {

TEST_CASE("steps are read while others are written") {
  LiveActivity live({.n_layers = 1, .n_units = 64, .max_tokens = 1}, std::chrono::milliseconds(0));
  const LiveActivity::Watch watch(live);
  std::atomic<int> n_torn{0};
  std::jthread reader([&live, &n_torn](const std::stop_token& stop) {
    LiveStep seen;
    while (!stop.stop_requested()) {
      if (live.placement().n_layers > 1) ++n_torn;
      if (!live.latest(seen)) continue;
      // Each step has all neurons or none, so a mixture of two steps would be noticed.
      const int sum = std::accumulate(seen.levels.begin(), seen.levels.end(), 0);
      if (sum != 0 && sum != 64 * 15) ++n_torn;
    }
  });
  Batch batch;
  batch.tokens = batch.positions = batch.slots = batch.logit_rows = {0};
  for (int i = 0; i < 2000; ++i) {
    const LiveActivity::StepScope step(&live, batch);
    live.found()->bits[0] = i % 2 == 0 ? 0 : ~uint64_t{0};
    live.add(0, *live.found());
    if (i % 100 == 0) live.attach({.why_nothing = "Placed anew."});
  }
  reader.request_stop();
  reader.join();
  CHECK(n_torn == 0);
}

}  // namespace hearth::test
