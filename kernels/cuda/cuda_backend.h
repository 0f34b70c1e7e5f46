// The CUDA device that works beside the CPU. Its backend uses device memory only; its hybrid FFN uses device
// and host memory.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in stream order (kernels/cuda/ops/ops.h). finish() and
// to_host() wait for the device, and HybridFfn::run() waits for the CPU's share. All calls come from the
// engine thread, as for every backend.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/compute_device.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_options.h"

namespace hearth::cuda {

/// Creates the device for GPU 0. `cpu` computes the neurons that are not on the GPU, and must outlive the
/// device. Throws std::bad_alloc if the GPU has too little free memory, and std::runtime_error, whose text is
/// a sentence, if there is no usable GPU.
std::unique_ptr<ComputeDevice> make_device(CpuBackend& cpu, const DeviceOptions& options);

/// Returns an empty string if a library for the products of prompt tokens is available
/// (StepBounds::library_rows), else a phrase with the reason why there is none. The first call loads the
/// library, which may take some tenths of a second. Thread-safe.
std::string why_no_prompt_library();

/// Whether dequantizing matrices for the library saves time. It does on data center GPUs, whose tensor cores
/// multiply f16 with F32 sums at full rate. Other GPUs do this at half rate, and the two int8 products of
/// Hearth's own kernels are faster there.
constexpr bool library_decodes(Version compute_capability) {
  return compute_capability == Version{8, 0} || compute_capability.major == 9 ||
         compute_capability.major == 10;
}

/// The exact number of bytes that reserve() takes from the device's memory budget.
size_t scratch_bytes(const StepBounds& bounds);

}  // namespace hearth::cuda
