// A trial kernel that runs before all other kernels, to find out whether this program's code runs on the
// device. The program's binaries may be for other GPUs, or its PTX may be too new for the driver.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>

namespace hearth::cuda {

/// The output of the trial kernel, one number per thread.
using TrialNumbers = std::array<uint32_t, 32>;

/// Enqueues the kernel, which writes its numbers to `out`. `out` must be host memory that the device can
/// write. Returns the error of the launch, for example cudaErrorNoKernelImageForDevice if this program has no
/// code for the GPU.
cudaError_t launch_trial(TrialNumbers* out, cudaStream_t stream);

/// The numbers that the kernel must write.
TrialNumbers expected_of_trial();

}  // namespace hearth::cuda
