// The CUDA device beside the CPU. Its backend works on the device's memory, its hybrid FFN on the device's
// and the CPU's memory.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in its order (kernels/cuda/ops/ops.h); finish() and
// to_host() wait, and HybridFfn::run() waits for the CPU's share. Engine thread, as for every backend.
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

/// Makes the device for GPU 0. `cpu` computes the cold neurons of hybrid layers; it must outlive the device.
/// Throws std::bad_alloc if the GPU has too little free memory, std::runtime_error with a sentence if there
/// is no usable GPU.
std::unique_ptr<ComputeDevice> make_device(CpuBackend& cpu, const DeviceOptions& options);

/// Tells whether a library for the products of prompt tokens is available (StepBounds::library_rows): returns
/// an empty string, or a phrase that says why there is none. The first call loads the library, which may take
/// some tenths of a second. Thread-safe.
std::string why_no_prompt_library();

/// Whether dequantizing matrices for the library is worthwhile. It is on data center GPUs, whose tensor cores
/// multiply f16 with F32 sums at full rate. Other GPUs do so at half rate, where the two int8 products that
/// Hearth's own kernels need are faster.
constexpr bool library_decodes(Version compute_capability) {
  return compute_capability == Version{8, 0} || compute_capability.major == 9 ||
         compute_capability.major == 10;
}

/// The exact number of bytes of the budget that reserve() takes.
size_t scratch_bytes(const StepBounds& bounds);

}  // namespace hearth::cuda
