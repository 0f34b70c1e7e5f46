// How fast this machine reads memory: the bound that decoding is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/machine/run_together.h"

namespace hearth {

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
