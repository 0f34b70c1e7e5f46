// How a CUDA device is made. Contains no CUDA headers.
#pragma once

#include <cstddef>

#include "kernels/base/trace.h"
#include "kernels/cpu/host_experts.h"
#include "kernels/cpu/host_neurons.h"

namespace hearth::cuda {

/// The fewest tokens of a step for which it is faster to copy a layer's cold neurons to the device than to
/// compute them on the CPU. A weight costs the bus its bytes once, and the CPU a multiply-add for each token:
///   n / cpu_multiply_adds_per_s = bytes_per_weight / bus_bytes_per_s
/// The device's own computing time is small beside both; so is, from the second token on, the time that the
/// CPU reads from memory. At least 1; at most a million, for an extremely slow bus.
constexpr int crossover_tokens(double bytes_per_weight, double bus_bytes_per_s,
                               double cpu_multiply_adds_per_s) {
  const double n = bytes_per_weight / bus_bytes_per_s * cpu_multiply_adds_per_s;
  return n < 1 ? 1 : n > 1e6 ? 1'000'000 : static_cast<int>(n) + 1;
}

/// Speeds assumed for a machine that was not measured: PCIe 4 with 16 lanes, and a CPU with half a
/// tera-multiply-add per second.
inline constexpr double kUsualLink = 25e9, kUsualCpuMultiplyAdds = 5e11;

struct DeviceOptions {
  size_t budget_bytes = 0;  // of device memory, allocated at once; the device never allocates more
  bool graphs = true;       // steps are recorded and played back
  Trace* trace = nullptr;   // must outlive the device; null: no trace
  /// Computes the cold neurons; null: the CpuBackend does. Must outlive the device.
  HostNeurons* cold_neurons = nullptr;
  /// Computes the missing experts; null: the CpuBackend does. Must outlive the device.
  HostExperts* missing_experts = nullptr;
  /// In steps of at least this many tokens, cold neurons are copied to the device (StepBounds::stream_bytes).
  /// 0: never. 1: in all steps, so that the CPU computes no neurons. The default, for 4.5 bits per weight, is
  /// 12.
  int stream_from_tokens = crossover_tokens(4.5 / 8, kUsualLink, kUsualCpuMultiplyAdds);
};

}  // namespace hearth::cuda
