// The CUDA device beside the CPU. Its backend works on the device's memory, its hybrid FFN on the device's
// and the CPU's memory.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in its order (kernels/cuda/ops.h); finish() and
// to_host() wait, and HybridFfn::run() waits for the CPU's share. Engine thread, as for every backend.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/base/trace.h"
#include "kernels/compute_device.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth::cuda {

/// The fewest tokens of a step for which it is faster to copy a layer's cold neurons to the device than to
/// compute them on the CPU. A weight costs the bus its bytes once, and the CPU a multiply-add for each token:
///   n / cpu_multiply_adds_per_s = bytes_per_weight / bus_bytes_per_s
/// The device's own computing time is small beside both; so is, from the second token on, the time that the
/// CPU reads from memory. At least 1; at most a million, where the bus is hardly there.
constexpr int crossover_tokens(double bytes_per_weight, double bus_bytes_per_s,
                               double cpu_multiply_adds_per_s) {
  const double n = bytes_per_weight / bus_bytes_per_s * cpu_multiply_adds_per_s;
  return n < 1 ? 1 : n > 1e6 ? 1'000'000 : static_cast<int>(n) + 1;
}

/// What a machine does that nobody has measured: PCIe 4 with 16 lanes, and a processor of half a tera-multiply-add a second.
inline constexpr double kUsualLink = 25e9, kUsualCpuMultiplyAdds = 5e11;

struct DeviceOptions {
  size_t budget_bytes = 0;  // of device memory, allocated at once; the device never allocates more
  bool graphs = true;       // steps are recorded and played back
  Trace* trace = nullptr;   // must outlive the device; null: no trace
  /// Computes cold neurons instead of the CpuBackend; null: that does. Must outlive the device.
  HostNeurons* cold_neurons = nullptr;
  /// In steps of at least this many tokens, cold neurons are copied to the device (StepBounds::stream_bytes).
  /// 0: in no step. 1: in all steps, and the CPU computes no neurons. 4.5 bits on a usual machine give 12.
  int stream_from_tokens = crossover_tokens(4.5 / 8, kUsualLink, kUsualCpuMultiplyAdds);
};

/// Makes the device for GPU 0. `cpu` computes the cold neurons of hybrid layers; it must outlive the device.
/// Throws std::bad_alloc if the GPU has not enough free memory, std::runtime_error with a sentence if there
/// is no usable GPU.
std::unique_ptr<ComputeDevice> make_device(CpuBackend& cpu, const DeviceOptions& options);

/// Whether there is a library that a device may multiply prompts' tokens by (StepBounds::library_rows): empty, or a phrase
/// that says why there is none. Loads it the first time, which may take some tenths of a second. Thread-safe.
std::string why_no_prompt_library();

/// Whether it pays to dequantise matrices for the library: on the GPUs for data centres, whose tensor cores multiply f16 with
/// sums in F32 at full rate. Others do so at half of it, and the two products of bytes that Hearth's kernels need are faster.
constexpr bool library_decodes(Version compute_capability) {
  return compute_capability == Version{8, 0} || compute_capability.major == 9 ||
         compute_capability.major == 10;
}

/// The exact number of bytes that reserve() takes of the budget.
size_t scratch_bytes(const StepBounds& bounds);

}  // namespace hearth::cuda
