// The Backend on a CUDA device: everything it works on lives in the device's memory.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in its order (kernels/cuda/ops.h); finish() and
// to_host() wait. Engine thread, as for every backend.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace hearth::cuda {

/// The backend on device 0. `cold` computes the neurons that are not on the device (NeuronResidency), while
/// the device computes the others; it must outlive the backend. Throws std::runtime_error, a sentence, where
/// there is no device that can be used.
std::unique_ptr<Backend> make_backend(CpuBackend& cold);

}  // namespace hearth::cuda
