// How fast this machine's processors read its memory, in order and scattered, and how fast they multiply.
//
// There is one function for each figure of the host that `probe` measures, so that its caller can show
// progress and stop between them. One thread uses it at a time; it starts threads of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "kernels/memory.h"

namespace hearth {

class CpuBackend;

class HostSpeed {
 public:
  /// Allocates several hundred megabytes of memory and writes them. n_threads: the number of threads that
  /// "all threads" means below. REQUIRES: n_threads >= 1. Throws std::bad_alloc, and what CpuBackend throws.
  HostSpeed(int n_threads, Isa isa);
  ~HostSpeed();

  /// Whether memory was so short that the figures may include cached reads.
  bool short_of_memory() const { return short_of_memory_; }

  /// Bytes per second that n_threads threads read together.
  double read_rate(int n_threads) const;

  /// Bytes per second at which all threads read scattered neurons' rows, as in decoding with a device, when
  /// the CPU computes a part of the neurons. Reads 15 % of all bundles; each is an up and a down row of Q4_0.
  double scattered_rate() const;

  /// Weights times activations per second that all threads compute in long steps (prompt_rate.h).
  double multiply_adds_per_s();

 private:
  void fill();

  Isa isa_;
  std::unique_ptr<CpuBackend> backend_;
  bool short_of_memory_ = false;
  size_t n_words_ = 0;
  std::unique_ptr<uint64_t[]> words_;  // not initialized by the allocation; the threads write it
};

/// Bytes per second that these processors read together. They write the memory first, so on machines with
/// several nodes it lies near them. Takes as much memory as HostSpeed, and frees it. Throws std::bad_alloc.
double node_read_rate(const std::vector<int>& cpus);

}  // namespace hearth
