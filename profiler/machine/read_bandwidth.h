// How fast this machine reads memory, which is the bound that decoding is measured against; and what
// measuring it takes: free memory, and threads that start together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hearth {

/// Of this machine, now, in bytes; 0 if the system does not say.
size_t available_bytes();

/// What a time is counted by. kWall: what it took. kProcessors: what it would have taken if no thread had
/// ever waited for a processor that another program had: on a quiet machine the same.
enum class RunTime { kWall, kProcessors };

/// Seconds of body(0) to body(n_threads - 1), each on a thread of its own that begins when all are there; of
/// the slowest, at least a microsecond. cpus: the processors that the threads keep to; empty: where the
/// system puts them. body must not throw. REQUIRES: n_threads >= 1. Throws std::system_error if the system
/// grants no more threads; no body has run then.
double seconds_together(int n_threads, RunTime time, const std::vector<int>& cpus,
                        const std::function<void(int)>& body);

/// Bytes of memory to read in order to measure memory and not caches: several times the last-level caches, or
/// less where memory is short.
struct ReadBuffer {
  size_t bytes = 0;
  bool is_short = false;  // memory is, and the caches hold more than half of them: they show in the figures
};
ReadBuffer read_buffer();

/// Bytes per second that n_threads together read of these words now: the best of a few passes. cpus: the
/// processors that the threads keep to; empty: where the system puts them. REQUIRES: n_threads >= 1. Throws
/// std::system_error if the system grants no more threads.
double measure_read(std::span<const uint64_t> words, int n_threads, RunTime time,
                    const std::vector<int>& cpus = {});

/// A buffer far larger than the caches, and the reading of it. One thread uses it at a time.
class ReadBandwidth {
 public:
  /// REQUIRES: n_threads >= 1. Throws std::bad_alloc.
  explicit ReadBandwidth(int n_threads);

  /// Bytes per second that the threads together read from DRAM now: the better of a few passes, a fraction of
  /// a second. Machines are shared, and what they read changes from minute to minute: measure beside what it
  /// is compared with. Throws std::system_error if the system grants no more threads.
  double measure() const;

 private:
  int n_threads_;
  std::vector<uint64_t> buffer_;
};

}  // namespace hearth
