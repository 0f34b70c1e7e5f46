// Starts the measuring threads, and reads memory with them.
#include "profiler/machine/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <stop_token>
#include <thread>
#include <utility>

#include "engine/residency/memory_limit.h"
#include "kernels/cpu/threads/topology.h"

namespace hearth {

namespace {

// The least time that seconds_together() returns, because the clock may not have advanced at all.
constexpr double kTickSeconds = 1e-6;

/// Returns the processor seconds that the calling thread has used.
double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

RunSeconds seconds_together(int n_threads, const std::vector<int>& cpus,
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
  return {.wall = std::max(wall.count(), kTickSeconds), .processors = std::max(slowest, kTickSeconds)};
}

namespace {

// The buffer has at least this size, and at least four times the size of the last-level cache, so that a pass
// over it misses the cache. Virtual machines report the caches of their whole host, 300 MB and more.
constexpr size_t kLeastBufferBytes = size_t{512} << 20;
constexpr size_t kCaches = 4;
// The buffer has at most this size. For the largest caches of servers (768 MB), the limit is less than
// kCaches times the cache, but a pass over the buffer still misses the cache.
constexpr size_t kMostBufferBytes = size_t{2} << 30;
// If memory is short, the buffer takes half of the available memory, but never less than this.
constexpr size_t kSmallestBufferBytes = size_t{64} << 20;
// The median of these passes counts. Decoding reads memory for minutes, so it reaches the usual rate and not
// that of the luckiest moment.
constexpr int kPasses = 7, kLeastPasses = 3;
// Each thread reads its part in this many streams, alternating between them. With a single stream, the
// prefetchers keep too few reads in flight: a Sapphire Rapids core reads 10.7 GB/s with 1 stream, 13.7 with 4
// and 14.0 with 8.
constexpr size_t kStreams = 8;
constexpr size_t kWordsPerLine = 8;
constexpr std::chrono::milliseconds kEnough{600};  // slow or busy machines get fewer passes

/// Returns the sum of kStreams adjacent ranges of `per_stream` words each. Without a result, the compiler
/// would remove the reads.
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

/// REQUIRES: at least one rate.
PassRates pass_rates(std::vector<double> rates) {
  std::ranges::sort(rates);
  return {.median = rates[rates.size() / 2], .slowest = rates.front(), .fastest = rates.back()};
}

}  // namespace

ReadBuffer read_buffer() {
  const size_t caches = last_level_cache_bytes(allowed_cpus());
  const size_t wanted = std::clamp(kCaches * caches, kLeastBufferBytes, kMostBufferBytes);
  ReadBuffer buffer;
  buffer.bytes = std::clamp<size_t>(available_bytes() / 2, kSmallestBufferBytes, wanted);
  buffer.is_short = buffer.bytes < std::min(wanted, 2 * caches);
  return buffer;
}

ReadSpeed measure_read(std::span<const uint64_t> words, int n_threads, const std::vector<int>& cpus) {
  const size_t n_streams = static_cast<size_t>(n_threads) * kStreams;
  const size_t per_stream = words.size() / n_streams / kWordsPerLine * kWordsPerLine;
  const size_t per_thread = per_stream * kStreams;
  const auto n_bytes = static_cast<double>(per_thread * static_cast<size_t>(n_threads) * sizeof(uint64_t));
  std::atomic<uint64_t> sink{0};
  std::vector<double> quiet, now;
  const auto begin = std::chrono::steady_clock::now();
  for (int pass = 0; pass < kPasses; ++pass) {
    if (pass >= kLeastPasses && std::chrono::steady_clock::now() - begin > kEnough) break;
    const RunSeconds seconds = seconds_together(n_threads, cpus, [&](int t) {
      sink += sum_words(words.data() + static_cast<size_t>(t) * per_thread, per_stream);
    });
    quiet.push_back(n_bytes / seconds.processors);
    now.push_back(n_bytes / seconds.wall);
  }
  return {.quiet = pass_rates(std::move(quiet)), .now = pass_rates(std::move(now))};
}

ReadBandwidth::ReadBandwidth(int n_threads)
    : n_threads_(n_threads), buffer_(read_buffer().bytes / sizeof(uint64_t), 1) {}

ReadSpeed ReadBandwidth::measure() const { return measure_read(buffer_, n_threads_); }

}  // namespace hearth
