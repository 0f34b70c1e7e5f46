// A simulated device: its work takes virtual time but computes nothing. With it, the engine's schedule can be
// measured for GPUs that are not available.
//
// Only programs that are built with the emulated device (tests/support/cudaemu) can simulate;
// `hearth-profiler bench --simulate` starts such a program. Memory is reserved but not filled. The time of a
// kernel follows from its declaration (kernels/cuda/ops/kernel_work.h), and the time of a copy from its
// bytes. Streams and events order them. All times are virtual (kernels/base/virtual_time.h).
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
  double launch_s = 0;   // time from the end of a kernel to the start of the next kernel
  double copy_s = 0;     // time from the end of the preceding work to the start of a copy
  // The fraction of to_device_bytes_per_s that kernels reach when they read host rows one by one.
  double gather_share = 1;
  // The additional time that a kernel takes to start if its stream was idle: from the launch until the
  // start_s of its KernelSpeed begins.
  double first_kernel_s = 0;
  double launch_call_s = 0;  // host time of a call that launches a kernel or enqueues a small operation
  double graph_call_s = 0;   // host time of a call that launches a graph
  double wait_call_s = 0;    // time from the end of the work until the call that waits for it returns
  double visible_s = 0;      // time from a store by the device until a host that polls the word sees it
};

/// The device's activity since reset_simulated().
struct SimulatedUse {
  // Seconds busy. Reads of kernels over PCIe count as copies.
  double kernels_s = 0, to_device_s = 0, from_device_s = 0;
  double bytes = 0;  // bytes of device memory that kernels read and wrote
  double to_device_bytes = 0;
  double to_device_until = 0;  // the virtual time until which the link to the device is busy
  int64_t n_kernels = 0, n_copies = 0, n_graphs = 0;
  std::array<int64_t, kKernelClasses> n_of_class = {};  // kernels
  /// Counts of the waits of the thread that began the simulation: n_waits for all work of the device, and
  /// n_hand_overs for the number of a HandOver.
  int64_t n_waits = 0, n_hand_overs = 0;
};

/// Begins to simulate a device with these speeds. Returns false if this program cannot simulate. Call it
/// once, before any other use of the device. trace: gets the device's spans; null: no spans are recorded.
bool simulate_device(const SimulatedSpeeds& speeds, Trace* trace);
/// can_simulate(): whether this program can simulate a device. device_is_simulated(): whether it does.
bool can_simulate();
bool device_is_simulated();
SimulatedUse simulated_use();
/// Returns the time between `begin` and `end` during which a kernel runs. Only kernels that were launched
/// before this call count. REQUIRES: `begin` does not decrease from call to call, unless reset_simulated()
/// was called in between.
double simulated_kernels_between(double begin, double end);
/// Resets the counts and begins the trace. Call it after a model was loaded, so that the trace does not
/// contain the loading.
void reset_simulated();

/// If the device is simulated, waits until the device's latest store to this word is visible to the host.
void wait_simulated(const uint32_t& word);

/// A product on a simulated device. Column i of out [n_tokens, out_stride] is the product with row ids[i] of
/// the weights, or with row i if `ids` is null.
struct SimulatedProduct {
  Matrix weight;
  const int32_t* ids = nullptr;  // null: all rows
  int64_t n_ids = 0;
  int n_tokens = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};
/// A choice of experts on a simulated device.
struct SimulatedRoute {
  int n_tokens = 0, n_used = 0;
  const int32_t* slot_of = nullptr;  // [n_experts] see DeviceExperts::slot_of; null: all experts are missing
  int32_t* experts = nullptr;        // [n_tokens, n_used] output, the best first
  int32_t* places = nullptr;         // [n_tokens, n_used] output: slot_of the experts; -1: missing
};

/// Functions that compute results instead of the device. Either may be empty.
struct SimulatedResults {
  /// May write chosen values to `out`, which determine which neurons are active. If it is empty, products are
  /// not computed.
  std::function<void(const SimulatedProduct&)> product = {};
  /// Fills the arrays of the choice that the latest product with a router's matrix decides. If it is empty,
  /// the kernels that choose experts run, which takes much longer.
  std::function<void(const SimulatedRoute&)> route = {};
};
void set_simulated_results(const SimulatedResults& results);
/// Calls the function for products, unless it is empty.
void simulate_product(const SimulatedProduct& product);
/// Calls the function for choices of experts. Returns false if it is empty, or if the device is not
/// simulated.
bool simulate_route(const SimulatedRoute& route);

}  // namespace hearth::cuda
