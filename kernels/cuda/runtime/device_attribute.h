// Queries the CUDA runtime for a single number that describes the GPU.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

/// Returns the value of an attribute of device 0, the GPU that Hearth uses. The call is cheap, because the
/// runtime stores these values. May be called from any thread. Throws CudaError.
inline int device_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, 0), "asking for a property of the GPU");
  return value;
}

}  // namespace hearth::cuda
