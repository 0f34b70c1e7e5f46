// How fast this machine reads memory: the bound that decoding is measured against.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth {

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
