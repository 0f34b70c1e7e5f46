// Measures how fast this machine's processors read its memory, in order and in scattered rows, and how fast
// they multiply.
//
// There is one function for each figure of the host that `probe` measures, so that the caller can show
// progress and stop between two measurements. Only one thread may use a HostSpeed at a time. The object
// starts its own threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "kernels/memory.h"
#include "profiler/machine/read_bandwidth.h"

namespace hearth {

class CpuBackend;

class HostSpeed {
 public:
  /// Allocates several hundred megabytes of memory and writes them. n_threads: the number of threads that
  /// measure ("all threads" in the comments below). REQUIRES: n_threads >= 1. Throws std::bad_alloc, and
  /// passes on the exceptions of CpuBackend.
  HostSpeed(int n_threads, Isa isa);
  ~HostSpeed();

  /// Returns whether memory was so short that the figures may include reads from caches.
  bool short_of_memory() const { return short_of_memory_; }

  /// Returns how fast n_threads threads together read, if no other program runs.
  PassRates read_rate(int n_threads) const;

  /// Returns the bytes per second at which all threads read the rows of scattered neurons. Decoding has this
  /// access pattern if the CPU computes part of a layer's neurons and a device the rest. Each pass reads 15 %
  /// of all bundles; a bundle is an up row and a down row in Q4_0.
  double scattered_rate() const;

  /// Returns how many products of a weight and an activation all threads compute per second in long steps
  /// (prompt_rate.h).
  double multiply_adds_per_s();

 private:
  void fill();

  Isa isa_;
  std::unique_ptr<CpuBackend> backend_;
  bool short_of_memory_ = false;
  size_t n_words_ = 0;
  std::unique_ptr<uint64_t[]> words_;  // allocated without initialization; the threads write it first
};

/// Returns the bytes per second that these processors read together. The processors write the memory first,
/// so that a machine with several NUMA nodes allocates it in their node. Allocates as much memory as
/// HostSpeed, and frees it before returning. Throws std::bad_alloc.
double node_read_rate(const std::vector<int>& cpus);

}  // namespace hearth
