// Measurement of read bandwidth: every thread sums its own part of one buffer, all at the same time.
#include "profiler/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

namespace hearth {
namespace {

// Several times the largest last-level caches of consumer machines (128 MB of X3D parts), so that a pass
// misses.
constexpr size_t kBufferBytes = size_t{512} << 20;
constexpr int kPasses = 5;  // the best is kept: other programs only ever make a pass slower

/// Sums words so that the compiler cannot leave out a read; eight sums keep enough loads in flight.
uint64_t sum_words(const uint64_t* words, size_t n) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= n; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double measure_read_bandwidth(int n_threads) {
  const size_t n_words = kBufferBytes / sizeof(uint64_t);
  std::vector<uint64_t> buffer(n_words, 1);
  const size_t per_thread = n_words / static_cast<size_t>(n_threads);
  std::atomic<uint64_t> sink{0};
  double best_seconds = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::atomic<int> n_ready{0};
    std::atomic<bool> go{false};
    std::vector<std::jthread> threads;
    for (int t = 0; t < n_threads; ++t) {
      threads.emplace_back([&, t](const std::stop_token& stop) {
        n_ready.fetch_add(1);
        while (!go.load()) {
          if (stop.stop_requested()) return;  // the system granted no more threads
          std::this_thread::yield();
        }
        sink += sum_words(buffer.data() + static_cast<size_t>(t) * per_thread, per_thread);
      });
    }
    while (n_ready.load() < n_threads) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    go.store(true);
    for (std::jthread& thread : threads) thread.join();
    best_seconds = std::min(best_seconds,
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return static_cast<double>(per_thread * static_cast<size_t>(n_threads) * sizeof(uint64_t)) / best_seconds;
}

}  // namespace hearth
