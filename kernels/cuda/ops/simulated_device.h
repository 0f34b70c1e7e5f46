// A device that takes time but computes nothing: for measuring the engine's schedule on GPUs that are not at hand.
//
// Only programs on the emulated device have one (tests/support/cudaemu); hearth-profiler's `bench --simulate` starts such a
// program. Memory is reserved but not filled, kernels are charged by what they declare (kernels/cuda/ops/kernel_work.h),
// copies by their bytes, and streams and events order them, in the time of kernels/base/virtual_time.h.
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
  double instructions_per_s = 0;
  KernelSpeeds kernels;  // by class
  double launch_s = 0;   // from the end of a kernel to the start of the next: what a trace shows as nobody's
  double copy_s = 0;     // from the end of what is before a copy to its start
  double gather_share =
      1;  // of to_device_bytes_per_s, what kernels reach that read the host's rows one by one
  double first_kernel_s =
      0;  // from a launch into an idle stream to the start of what a kernel takes: its start_s
  double launch_call_s = 0;  // a call that launches a kernel or enqueues something small
  double graph_call_s = 0;   // a call that launches a graph
  double wait_call_s = 0;  // from the end of the work waited for to the return of the call that waits for it
  double visible_s = 0;    // from a device's store to the host that spins on the word
};

/// What the device did since reset_simulated().
struct SimulatedUse {
  double kernels_s = 0, to_device_s = 0,
         from_device_s = 0;  // busy; copies include what kernels read over PCIe
  double bytes = 0;          // of kernels, in the device's memory
  double to_device_bytes = 0;
  double to_device_until = 0;  // virtual time until which the link to the device is taken
  int64_t n_kernels = 0, n_copies = 0, n_graphs = 0;
  std::array<int64_t, kKernelClasses> n_of_class = {};  // kernels
  /// How often the thread that began the simulation waited until the device had done all it was given, and how often for a
  /// number that a kernel stores.
  int64_t n_waits = 0, n_hand_overs = 0;
};

/// Begins to simulate a device of these speeds; false: this program cannot. Once, before any other call of the device.
/// trace: gets the device's spans; null: none.
bool simulate_device(const SimulatedSpeeds& speeds, Trace* trace);
/// Whether this program can simulate a device, and whether it does.
bool can_simulate();
bool device_is_simulated();
SimulatedUse simulated_use();
/// How long kernels that were launched until now run between these times. REQUIRES: `begin` does not descend from call to
/// call, or reset_simulated() was called.
double simulated_kernels_between(double begin, double end);
/// Begins to count anew, and to trace: what loading did is in no trace.
void reset_simulated();

/// If the device is simulated: waits until the host sees what the device stored last, for the host, at this address.
void wait_simulated(const uint32_t& word);

/// A product that a simulated device is to compute: `out` [n_tokens, stride] by place, of the weight's rows `ids`
/// [n_ids], or of all rows.
struct SimulatedProduct {
  Matrix weight;
  const int32_t* ids = nullptr;  // null: all rows
  int64_t n_ids = 0;
  int n_tokens = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};
/// What computes products: it may write planted values to `out`, which decide which neurons are active. Empty: nobody does.
using SimulateProduct = std::function<void(const SimulatedProduct&)>;
void set_simulated_products(const SimulateProduct& simulate);
/// Calls it, if there is one.
void simulate_product(const SimulatedProduct& product);

}  // namespace hearth::cuda
