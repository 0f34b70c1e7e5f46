// A simulated device, which takes time but computes nothing. It measures the engine's schedule on GPUs that
// are not at hand.
//
// Only programs built with the emulated device (tests/support/cudaemu) can simulate; `hearth-profiler bench
// --simulate` starts such a program. Memory is reserved but not filled. Kernels take the time that follows
// from their declarations (kernels/cuda/ops/kernel_work.h), copies the time for their bytes; streams and
// events order them. All time is that of kernels/base/virtual_time.h.
//
// Contains no CUDA headers, so that the profiler can include it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/trace.h"
#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/matrix.h"

namespace hearth::cuda {

/// The speeds of a simulated device. SI units.
struct SimulatedSpeeds {
  std::string name;
  int compute_capability = 80;  // 10 * major + minor
  size_t vram_bytes = 0;
  double vram_bytes_per_s = 0, to_device_bytes_per_s = 0, from_device_bytes_per_s = 0;
  KernelSpeeds kernels;  // by class
  double launch_s = 0;   // from the end of a kernel to the start of the next: a gap in a trace
  double copy_s = 0;     // from the end of the preceding work to the start of a copy
  double gather_share =
      1;  // the part of to_device_bytes_per_s that kernels reach when they read host rows one by one
  double first_kernel_s = 0;  // from a launch into an idle stream until the kernel's start_s begins
  double launch_call_s = 0;   // host time of a call that launches a kernel or enqueues something small
  double graph_call_s = 0;    // host time of a call that launches a graph
  double wait_call_s = 0;     // from the end of the awaited work to the return of the waiting call
  double visible_s = 0;       // from a device's store until the host, which polls the word, sees it
};

/// The device's activity since reset_simulated().
struct SimulatedUse {
  double kernels_s = 0, to_device_s = 0,
         from_device_s = 0;  // seconds busy; copies include reads of kernels over PCIe
  double bytes = 0;          // bytes of device memory that kernels read and wrote
  double to_device_bytes = 0;
  double to_device_until = 0;  // virtual time until which the link to the device is busy
  int64_t n_kernels = 0, n_copies = 0, n_graphs = 0;
  std::array<int64_t, kKernelClasses> n_of_class = {};  // kernels
  /// How often the thread that began the simulation waited for all of the device's work, and how often for a
  /// number that a kernel stores.
  int64_t n_waits = 0, n_hand_overs = 0;
};

/// Begins to simulate a device with these speeds. Returns false if this program cannot. Call it once, before
/// any other call of the device. trace: gets the device's spans; null: none.
bool simulate_device(const SimulatedSpeeds& speeds, Trace* trace);
/// Whether this program can simulate a device, and whether it does.
bool can_simulate();
bool device_is_simulated();
SimulatedUse simulated_use();
/// How long the kernels launched so far run between these times. REQUIRES: `begin` does not decrease from
/// call to call, unless reset_simulated() was called in between.
double simulated_kernels_between(double begin, double end);
/// Resets the counts and begins to trace, so that no trace contains the loading of a model.
void reset_simulated();

/// If the device is simulated, waits until the host sees the device's latest store to this word.
void wait_simulated(const uint32_t& word);

/// A product for a simulated device: `out` [n_tokens, out_stride] gets the products with the weight rows
/// `ids` [n_ids], by list index, or with all rows.
struct SimulatedProduct {
  Matrix weight;
  const int32_t* ids = nullptr;  // null: all rows
  int64_t n_ids = 0;
  int n_tokens = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};
/// Computes products in the device's place: it may write planted values to `out`, which decide which neurons
/// are active. Empty: products are not computed.
using SimulateProduct = std::function<void(const SimulatedProduct&)>;
void set_simulated_products(const SimulateProduct& simulate);
/// Calls the function that was set, if any.
void simulate_product(const SimulatedProduct& product);

}  // namespace hearth::cuda
