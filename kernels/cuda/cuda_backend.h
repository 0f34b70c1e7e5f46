// The CUDA device beside the CPU: its backend works on the device's memory, its hybrid FFN on the device's and
// the CPU's.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in its order (kernels/cuda/ops.h); finish() and
// to_host() wait, and HybridFfn::run() waits for the CPU's share. Engine thread, as for every backend.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/backend.h"
#include "kernels/compute_device.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/trace.h"

namespace hearth::cuda {

/// Tokens of a step from which on a layer's cold neurons are sooner brought to the device than computed by
/// the CPU. A weight costs the bus bits_per_weight / 8 bytes once, and the CPU two operations for each token:
///   n * 2 / cpu_gflops = bits_per_weight / 8 / bus_gb_per_s
/// The device's own time is small beside both, and the CPU's reading from memory from the second token on.
constexpr int crossover_tokens(double bits_per_weight, double bus_gb_per_s, double cpu_gflops) {
  const double n = bits_per_weight / 8 / bus_gb_per_s * cpu_gflops / 2;
  return n < 1 ? 1 : static_cast<int>(n) + 1;
}

struct DeviceOptions {
  size_t budget_bytes = 0;  // of device memory, taken at once; all that the device will ever take itself
  bool graphs = true;       // steps are recorded and played back
  Trace* trace = nullptr;   // outlives the device; null: nothing is traced
  /// Steps of at least so many tokens have cold neurons brought to the device, through StepBounds'
  /// stream_bytes; 0: none do, 1: all, and the CPU computes no neurons. 4.5 bits, 25 GB/s, 1 TFLOP/s: 12.
  int stream_from_tokens = crossover_tokens(4.5, 25, 1000);
};

/// Device 0. `cpu` computes the cold neurons of hybrid layers; it must outlive the device. Throws
/// std::bad_alloc if the device has not that much memory, std::runtime_error, a sentence, where there is no
/// device that can be used.
std::unique_ptr<ComputeDevice> make_device(CpuBackend& cpu, const DeviceOptions& options);

/// What reserve() takes of the budget, to the byte.
size_t scratch_bytes(const StepBounds& bounds);

}  // namespace hearth::cuda
