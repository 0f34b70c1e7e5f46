// How fast this machine's processors read its memory, in order and scattered, and how fast they multiply.
//
// One function for each figure that `probe` measures of the host, so that its caller can show progress and
// stop between them. One thread uses it at a time; it starts threads of its own.
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
  /// Allocates some hundred megabytes of memory and writes them. n_threads: the number that "all threads"
  /// means below. REQUIRES: n_threads >= 1. Throws std::bad_alloc, or like CpuBackend.
  HostSpeed(int n_threads, Isa isa);
  ~HostSpeed();

  /// Whether memory was so short that the figures may include cached reads.
  bool short_of_memory() const { return short_of_memory_; }

  /// Bytes per second that n_threads threads read together.
  double read_rate(int n_threads) const;

  /// Bytes per second that all threads read of scattered neurons' rows, as decoding reads the neurons that
  /// the CPU computes beside a device: bundles of an up and a down row of Q4_0, 15 % of all bundles.
  double scattered_rate() const;

  /// Weights times activations per second that all threads compute in long steps (prompt_rate.h).
  double multiply_adds_per_s();

 private:
  void fill();

  Isa isa_;
  std::unique_ptr<CpuBackend> backend_;
  bool short_of_memory_ = false;
  size_t n_words_ = 0;
  std::unique_ptr<uint64_t[]> words_;  // not initialised by the allocation; the threads write it
};

/// Bytes per second that these processors read together. They write the memory first, so on machines with
/// several nodes it lies near them. Takes as much memory as HostSpeed, and frees it. Throws std::bad_alloc.
double node_read_rate(const std::vector<int>& cpus);

}  // namespace hearth
