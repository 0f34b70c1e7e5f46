// The Backend on a CUDA device: everything it works on lives in the device's memory.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp in its
// place. Operations are enqueued on one stream and run in its order (kernels/cuda/ops.h); finish() and
// to_host() wait. Engine thread, as for every backend.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/trace.h"

namespace hearth::cuda {

struct DeviceOptions {
  size_t budget_bytes = 0;  // of device memory, taken at once; all that the backend will ever take itself
  bool graphs = true;       // steps are recorded and played back
  Trace* trace = nullptr;   // outlives the backend; null: nothing is traced
};

/// The backend on device 0. `cold` computes the neurons that are not on the device (NeuronResidency), while
/// the device computes the others; it must outlive the backend. Throws std::bad_alloc if the device has not
/// that much memory, std::runtime_error, a sentence, where there is no device that can be used.
std::unique_ptr<Backend> make_backend(CpuBackend& cold, const DeviceOptions& options);

/// What reserve() takes of the budget, to the byte.
size_t scratch_bytes(const StepBounds& bounds);

}  // namespace hearth::cuda
