// The Backend on a CUDA device: everything it works on lives in the device's memory.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in its order (kernels/cuda/ops.h); finish() and
// to_host() wait. Engine thread, as for every backend.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace hearth::cuda {

/// The backend on device 0. Throws std::runtime_error, a sentence, where there is none that can be used.
std::unique_ptr<Backend> make_backend();

}  // namespace hearth::cuda
