// Numbers that describe the GPU, asked of the CUDA runtime one at a time.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

/// The value of an attribute of the GPU that Hearth runs on (device 0). Cheap: the runtime has the values.
/// Any thread. Throws CudaError.
inline int device_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, 0), "asking for a property of the GPU");
  return value;
}

}  // namespace hearth::cuda
