// The options for creating a CUDA device. Contains no CUDA headers.
#pragma once

#include <cstddef>

#include "kernels/base/trace.h"
#include "kernels/cpu/host_experts.h"
#include "kernels/cpu/host_neurons.h"

namespace hearth::cuda {

/// Returns the minimum number of tokens in a step for which it is faster to copy a layer's cold neurons to
/// the device than to compute them on the CPU. Copying a weight takes the time to transfer its bytes over the
/// bus once. Computing with it on the CPU takes one multiply-add for each of the step's n tokens. Copying and
/// computing take the same time if
///   n / cpu_multiply_adds_per_s = bytes_per_weight / bus_bytes_per_s
/// The formula omits the time that the device computes, and the time that the CPU reads weights from memory.
/// The first is small compared with copying, and the second is small in steps of two or more tokens. The
/// result is at least 1, and at most a million for an extremely slow bus.
constexpr int crossover_tokens(double bytes_per_weight, double bus_bytes_per_s,
                               double cpu_multiply_adds_per_s) {
  const double n = bytes_per_weight / bus_bytes_per_s * cpu_multiply_adds_per_s;
  return n < 1 ? 1 : n > 1e6 ? 1'000'000 : static_cast<int>(n) + 1;
}

/// The speeds assumed if the machine was not measured: PCIe 4 with 16 lanes, and a CPU with half a trillion
/// multiply-adds per second.
inline constexpr double kUsualLink = 25e9, kUsualCpuMultiplyAdds = 5e11;

struct DeviceOptions {
  size_t budget_bytes = 0;  // bytes of device memory, allocated at once; the device never allocates more
  bool graphs = true;       // steps are recorded and played back
  Trace* trace = nullptr;   // must outlive the device; null: no trace
  /// Computes the cold neurons; null: the CpuBackend computes them. Must outlive the device.
  HostNeurons* cold_neurons = nullptr;
  /// Computes the missing experts; null: the CpuBackend computes them. Must outlive the device.
  HostExperts* missing_experts = nullptr;
  /// In steps of at least this many tokens, cold neurons are copied to the device (StepBounds::stream_bytes).
  /// With 0 they are never copied; with 1 they are copied in all steps, so the CPU computes no neurons. The
  /// default is 12: crossover_tokens() for 4.5 bits per weight and the usual speeds.
  int stream_from_tokens = crossover_tokens(4.5 / 8, kUsualLink, kUsualCpuMultiplyAdds);
};

}  // namespace hearth::cuda
