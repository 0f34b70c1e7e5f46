// Measures how fast this machine reads memory, which bounds decoding. Also has what such measurements need: a
// buffer size that fits in memory, and threads that start together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hearth {

/// The clock of a measurement. kWall: elapsed time. kProcessors: the time it would have taken if no thread
/// had ever waited for a processor that another program used. Both are equal on a quiet machine.
enum class RunTime { kWall, kProcessors };

/// Runs body(0) to body(n_threads - 1), each on its own thread; all begin once all threads exist. Returns the
/// seconds of the slowest, at least a microsecond. cpus: the processors that the threads run on; empty: the
/// system chooses. body must not throw. REQUIRES: n_threads >= 1. Throws std::system_error if the system
/// grants no more threads; then no body has run.
double seconds_together(int n_threads, RunTime time, const std::vector<int>& cpus,
                        const std::function<void(int)>& body);

/// The number of bytes to read so that memory is measured and not caches: several times the last-level
/// caches, or less if memory is short.
struct ReadBuffer {
  size_t bytes = 0;
  /// Memory is short, and the caches hold more than half of the bytes, so the figures may include cached
  /// reads.
  bool is_short = false;
};
ReadBuffer read_buffer();

/// Bytes per second at which n_threads threads together now read these words; the best of a few passes. cpus:
/// the processors that the threads run on; empty: the system chooses. REQUIRES: n_threads >= 1. Throws
/// std::system_error if the system grants no more threads.
double measure_read(std::span<const uint64_t> words, int n_threads, RunTime time,
                    const std::vector<int>& cpus = {});

/// A buffer far larger than the caches, and a measurement that reads it. One thread uses it at a time.
class ReadBandwidth {
 public:
  /// REQUIRES: n_threads >= 1. Throws std::bad_alloc.
  explicit ReadBandwidth(int n_threads);

  /// Bytes per second at which the threads together now read from DRAM; the best of a few passes, which take
  /// a fraction of a second. The rate of a shared machine changes from minute to minute, so measure it right
  /// beside the work that is compared with it. Throws std::system_error if the system grants no more threads.
  double measure() const;

 private:
  int n_threads_;
  std::vector<uint64_t> buffer_;
};

}  // namespace hearth
