// Work that starts at the same time: every thread does its part once, and only after all threads are ready.
#include "profiler/machine/read_bandwidth.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cpu/threads/topology.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

TEST_CASE("threads that run together each do their part once, and at the same time") {
  for (const int n_threads : {1, 2, 7}) {
    std::vector<int> done(static_cast<size_t>(n_threads));
    std::atomic<int> n_inside{0};
    const double seconds = seconds_together(n_threads, RunTime::kWall, {}, [&](int t) {
      ++done[static_cast<size_t>(t)];
      ++n_inside;
      // ends only if all are here at the same time
      while (n_inside.load() < n_threads) std::this_thread::yield();
    });
    CHECK(done == std::vector<int>(static_cast<size_t>(n_threads), 1));
    CHECK(seconds >= 1e-6);
  }
}

TEST_CASE("a sleeping thread uses no processor time") {
  // by the clock: wall time is compared with processor time; it may be longer
  const auto sleep = [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
  const double processors = seconds_together(2, RunTime::kProcessors, {}, sleep);
  const double wall = seconds_together(2, RunTime::kWall, {}, sleep);
  CHECK(wall >= 0.2);
  CHECK(processors < wall);
}

TEST_CASE("threads stay on the processors they are given, and absent processors are ignored") {
  const std::vector<int> all = allowed_cpus();
  const std::vector<int> one = {all.back()};
  std::vector<int> seen;
  seconds_together(1, RunTime::kWall, one, [&](int) { seen = allowed_cpus(); });
  CHECK(seen == one);
  seconds_together(1, RunTime::kWall, {8191, -1, 100000}, [&](int) { seen = allowed_cpus(); });
  CHECK_FALSE(seen.empty());
  CHECK(allowed_cpus() == all);  // the caller's binding has not changed
}

}  // namespace
}  // namespace hearth::test
