// How fast this machine's processors read its memory, in a row and here and there, and multiply.
//
// What `probe` measures of the host, one function for each figure, so that whoever calls them can show how
// far it is and stop in between. One thread uses it at a time; it starts threads of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/memory.h"

namespace hearth {

class CpuBackend;

class HostSpeed {
 public:
  /// Takes some hundred megabytes of memory, and writes them. n_threads: of all that is measured with "all
  /// threads". REQUIRES: n_threads >= 1. Throws std::bad_alloc, or as CpuBackend.
  HostSpeed(int n_threads, Isa isa);
  ~HostSpeed();

  /// Whether memory was so short that caches may show in the figures.
  bool short_of_memory() const { return short_of_memory_; }

  /// Bytes per second that so many threads read.
  double read_rate(int n_threads) const;

  /// Bytes per second of neurons' rows that lie scattered, by all threads, as decoding reads those that the
  /// CPU computes beside a device: bundles of an up and a down row of Q4_0, 15 % of those there are.
  double scattered_rate() const;

  /// Weights times activations per second in long steps, by all threads (prompt_rate.h).
  double multiply_adds_per_s();

 private:
  void fill();

  Isa isa_;
  std::unique_ptr<CpuBackend> backend_;
  bool short_of_memory_ = false;
  size_t n_words_ = 0;
  std::unique_ptr<uint64_t[]>
      words_;  // never given a value by the allocation, only by the threads that fill it
};

/// Bytes per second that these processors together read of memory that they wrote first, and that lies near
/// them where nodes differ. Takes as much memory as HostSpeed, and gives it back. Throws std::bad_alloc.
double node_read_rate(const std::vector<int>& cpus);

}  // namespace hearth
