// Stubs that replace kernels/cuda in a build without CUDA. They report that there is no GPU.
#include <stdexcept>

#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/bench/speed.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/hybrid/cuda_row_copier.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth::cuda {

std::variant<Device, std::string> probe() { return "built without CUDA"; }

void load_kernels() {}

uint64_t free_bytes(const Device& /*device*/) { return 0; }

Bandwidth measure_bandwidth(BandwidthOf /*what*/) {
  throw std::runtime_error("This Hearth was built without CUDA.");
}

Latency measure_latency() { throw std::runtime_error("This Hearth was built without CUDA."); }

std::string why_no_prompt_library() { return "built without CUDA"; }

std::vector<KernelTime> time_kernels(const KernelBenchOptions& /*options*/) {
  throw std::runtime_error("This Hearth was built without CUDA, so there are no kernels to time.");
}

double instructions_per_s() { throw std::runtime_error("This Hearth was built without CUDA."); }

size_t scratch_bytes(const StepBounds& /*bounds*/) { return 0; }

std::unique_ptr<RowCopier> make_row_copier(std::span<const HybridLayer* const> /*layers*/,
                                           const RowCopierOptions& /*options*/) {
  throw std::runtime_error("This Hearth was built without CUDA, so there is no neuron cache to fill.");
}

std::unique_ptr<ComputeDevice> make_device(CpuBackend& /*cpu*/, const DeviceOptions& /*options*/) {
  throw std::runtime_error(
      "This Hearth was built without CUDA; run on the CPU, or build where nvcc is found.");
}

}  // namespace hearth::cuda
