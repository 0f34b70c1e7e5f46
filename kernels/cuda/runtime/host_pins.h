// Host memory that the device may read while the host works: page-locks it, and releases it at the end.
//
// Each region is page-locked by one call and so either whole or not at all: a copy that begins in one page-locked range and
// ends in another is an invalid argument for CUDA, even if the ranges are neighbours. Regions are the neurons of single
// layers, some hundred megabytes; where the system refuses one, those before it stay, and later ones are tried, for they
// may be smaller.
//
// Owned by CudaHybridFfn, which waits for the device's work before it destroys this. Load only; one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "kernels/cuda/runtime/error.h"

namespace hearth::cuda {

class HostPins {
 public:
  HostPins() = default;
  ~HostPins() {
    for (const std::byte* host : pinned_) cudaHostUnregister(const_cast<std::byte*>(host));
  }
  HostPins(const HostPins&) = delete;
  HostPins& operator=(const HostPins&) = delete;

  /// Pins a region. Returns whether the system grants it. Throws CudaError if the device fails.
  bool add(const std::byte* host, size_t bytes) {
    if (bytes == 0) return true;
    const cudaError_t code = cudaHostRegister(const_cast<std::byte*>(host), bytes, cudaHostRegisterMapped);
    if (code == cudaSuccess) {
      pinned_.push_back(host);
      return true;
    }
    if (code != cudaErrorMemoryAllocation && code != cudaErrorNotSupported && code != cudaErrorNotPermitted &&
        code != cudaErrorInvalidValue && code != cudaErrorOperatingSystem &&
        code != cudaErrorHostMemoryAlreadyRegistered) {
      check(code, "page-locking cold neurons");
    }
    cudaGetLastError();  // clear the error, because a refusal does no harm
    return false;
  }

 private:
  std::vector<const std::byte*> pinned_;
};

}  // namespace hearth::cuda
