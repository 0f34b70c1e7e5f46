// See the header.
#include "profiler/machine/run_together.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <stop_token>
#include <thread>

#include "kernels/cpu/topology.h"

namespace hearth {
namespace {

constexpr double kTickSeconds = 1e-6;  // of a clock that may not have moved

/// Of a processor, that the calling thread has had.
double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

double seconds_together(int n_threads, RunTime time, const std::vector<int>& cpus,
                        const std::function<void(int)>& body) {
  std::atomic<int> n_ready{0};
  std::atomic<bool> go{false};
  std::vector<double> seconds(static_cast<size_t>(n_threads));
  std::vector<std::jthread> threads;
  for (int t = 0; t < n_threads; ++t) {
    threads.emplace_back([&, t](const std::stop_token& stop) {
      if (!cpus.empty()) keep_thread_to(cpus);
      n_ready.fetch_add(1);
      while (!go.load()) {
        if (stop.stop_requested()) return;  // the system granted no more threads
        std::this_thread::yield();
      }
      const double begin = thread_seconds();
      body(t);
      seconds[static_cast<size_t>(t)] = thread_seconds() - begin;
    });
  }
  while (n_ready.load() < n_threads) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  go.store(true);
  for (std::jthread& thread : threads) thread.join();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double slowest = *std::max_element(seconds.begin(), seconds.end());
  return std::max(time == RunTime::kWall ? wall.count() : slowest, kTickSeconds);
}

}  // namespace hearth
