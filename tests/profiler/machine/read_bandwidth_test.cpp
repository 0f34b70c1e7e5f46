// Work that starts at the same time: every thread does its part once, and only after all threads are ready.
#include "profiler/machine/read_bandwidth.h"

#include <atomic>
#include <chrono>
#include <cstdint>
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
    const RunSeconds seconds = seconds_together(n_threads, {}, [&](int t) {
      ++done[static_cast<size_t>(t)];
      ++n_inside;
      // ends only if all are here at the same time
      while (n_inside.load() < n_threads) std::this_thread::yield();
    });
    CHECK(done == std::vector<int>(static_cast<size_t>(n_threads), 1));
    CHECK(seconds.wall >= 1e-6);
    CHECK(seconds.processors >= 1e-6);
  }
}

TEST_CASE("a sleeping thread uses no processor time") {
  // by the clock: wall time is compared with processor time; it may be longer
  const auto sleep = [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
  const RunSeconds seconds = seconds_together(2, {}, sleep);
  CHECK(seconds.wall >= 0.2);
  CHECK(seconds.processors < seconds.wall);
}

TEST_CASE("threads stay on the processors they are given, and absent processors are ignored") {
  const std::vector<int> all = allowed_cpus();
  const std::vector<int> one = {all.back()};
  std::vector<int> seen;
  seconds_together(1, one, [&](int) { seen = allowed_cpus(); });
  CHECK(seen == one);
  seconds_together(1, {8191, -1, 100000}, [&](int) { seen = allowed_cpus(); });
  CHECK_FALSE(seen.empty());
  CHECK(allowed_cpus() == all);  // the caller's binding has not changed
}

TEST_CASE("the rates of passes are ordered, and a quiet machine is never slower than this one") {
  const std::vector<uint64_t> words(size_t{1} << 20, 1);
  for (const int n_threads : {1, 2}) {
    const ReadSpeed speed = measure_read(words, n_threads);
    for (const PassRates& rates : {speed.quiet, speed.now}) {
      CHECK(rates.slowest > 0);
      CHECK(rates.slowest <= rates.median);
      CHECK(rates.median <= rates.fastest);
    }
    CHECK(speed.now.median <= 1.01 * speed.quiet.median);  // threads cannot use more time than passes
  }
}

}  // namespace
}  // namespace hearth::test
