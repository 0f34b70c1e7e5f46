// Measurement of read bandwidth: every thread sums its own part of one buffer, all at the same time.
#include "profiler/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>

#include "engine/memory_limit.h"

namespace hearth {
namespace {

// At least this much, and four times the last-level cache, so that a pass misses: virtual machines see the
// caches of whole servers, 300 MB and more.
constexpr size_t kLeastBufferBytes = size_t{512} << 20;
constexpr size_t kCaches = 4;
// Where memory is short, half of what is available, but never less than this.
constexpr size_t kSmallestBufferBytes = size_t{64} << 20;
constexpr int kPasses = 3;  // the best is kept: other programs only ever make a pass slower
// Places of its part that a thread reads in turn. One alone is a single stream for the prefetchers, which
// keeps too few reads under way: a Sapphire Rapids core reads 10.7 GB/s so, 13.7 with 4 streams and 14.0 with
// 8.
constexpr size_t kStreams = 8;
constexpr size_t kWordsPerLine = 8;

/// Bytes of the largest cache of the first processor, 0 if the system does not say.
size_t last_level_cache_bytes() {
  size_t largest = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu0/cache", error)) {
    std::ifstream in(entry.path() / "size");  // "307200K"
    size_t kilobytes = 0;
    char unit = 0;
    if (in >> kilobytes >> unit && unit == 'K') largest = std::max(largest, kilobytes << 10);
  }
  return largest;
}

/// Memory that programs can have without others being swapped out; 0 if the system does not say.
size_t available_bytes() {
  std::ifstream in("/proc/meminfo");  // "MemAvailable:   23068672 kB"
  std::string key, rest;
  size_t kilobytes = 0;
  while (in >> key >> kilobytes && std::getline(in, rest)) {
    if (key == "MemAvailable:") return kilobytes << 10;
  }
  return 0;
}

size_t buffer_bytes() {
  const size_t wanted = std::max(kLeastBufferBytes, kCaches * last_level_cache_bytes());
  const size_t limit = memory_limit_bytes(), available = available_bytes();
  const size_t most = available == 0 ? limit : std::min(limit, available);
  return std::clamp(most / 2, kSmallestBufferBytes, wanted);
}

/// Sums words, `per_stream` each of kStreams neighbouring stretches, so that the compiler cannot leave out a
/// read.
uint64_t sum_words(const uint64_t* words, size_t per_stream) {
  uint64_t sums[kWordsPerLine] = {};
  for (size_t i = 0; i + kWordsPerLine <= per_stream; i += kWordsPerLine) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint64_t* line = words + stream * per_stream + i;
      for (size_t lane = 0; lane < kWordsPerLine; ++lane) sums[lane] += line[lane];
    }
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

ReadBandwidth::ReadBandwidth(int n_threads)
    : n_threads_(n_threads), buffer_(buffer_bytes() / sizeof(uint64_t), 1) {}

double ReadBandwidth::measure() const {
  const size_t n_streams = static_cast<size_t>(n_threads_) * kStreams;
  const size_t per_stream = buffer_.size() / n_streams / kWordsPerLine * kWordsPerLine;
  const size_t per_thread = per_stream * kStreams;
  std::atomic<uint64_t> sink{0};
  double best_seconds = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::atomic<int> n_ready{0};
    std::atomic<bool> go{false};
    std::vector<std::jthread> threads;
    for (int t = 0; t < n_threads_; ++t) {
      threads.emplace_back([&, t](const std::stop_token& stop) {
        n_ready.fetch_add(1);
        while (!go.load()) {
          if (stop.stop_requested()) return;  // the system granted no more threads
          std::this_thread::yield();
        }
        sink += sum_words(buffer_.data() + static_cast<size_t>(t) * per_thread, per_stream);
      });
    }
    while (n_ready.load() < n_threads_) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    go.store(true);
    for (std::jthread& thread : threads) thread.join();
    best_seconds = std::min(best_seconds,
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return static_cast<double>(per_thread * static_cast<size_t>(n_threads_) * sizeof(uint64_t)) / best_seconds;
}

}  // namespace hearth
