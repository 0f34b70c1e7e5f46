// Shared by the tests of emulated CUDA: settings that end with the test, and host functions that wait for
// each other.
#pragma once

#include <semaphore>

#include "kernels/cuda/ops/kernel_work.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::cudaemu {

/// A working device with the default configuration and counts of 0. The destructor resets all of it.
class Emulated {
 public:
  Emulated() : before_(config()) {
    repair_device();
    reset_stats();
  }
  ~Emulated() {
    repair_device();
    record_intervals(false);
    config() = before_;
  }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

 private:
  Config before_;
};

/// For launches whose declared work is not read.
inline cuda::KernelWork no_work() { return {}; }

/// Marks a kernel that races on purpose, so that ThreadSanitizer does not stop it.
#define HEARTH_RACES __attribute__((no_sanitize("thread")))

/// Blocks a stream until it is opened.
class Gate {
 public:
  /// Enqueues a wait for the gate in the stream.
  void hold(cudaStream_t stream) {
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* gate) { static_cast<Gate*>(gate)->open_.acquire(); }, this) == cudaSuccess);
  }
  void open() { open_.release(); }
  /// Enqueues the opening of the gate in the stream.
  void open_from(cudaStream_t stream) {
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* gate) { static_cast<Gate*>(gate)->open(); }, this) == cudaSuccess);
  }

 private:
  std::counting_semaphore<> open_{0};
};

}  // namespace hearth::cudaemu
