// A kernel that is run before any other, to learn whether this program's code runs on the device: its images may be for
// other GPUs, or its PTX too new for the driver.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>

namespace hearth::cuda {

/// What the trial kernel writes, one number for each of its threads.
using TrialNumbers = std::array<uint32_t, 32>;

/// Enqueues the kernel, which writes its numbers to `out`: host memory that the device writes. Returns the error of the
/// launch, which is what a device says that has no code.
cudaError_t launch_trial(TrialNumbers* out, cudaStream_t stream);

/// The numbers that it has to write.
TrialNumbers expected_of_trial();

}  // namespace hearth::cuda
