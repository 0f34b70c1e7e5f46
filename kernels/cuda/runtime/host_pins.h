// Host memory that the device may read while both work: page-locked, and given back at the end.
//
// Owned by CudaHybridFfn; the device's work is waited for before it goes. Load only; one thread.
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

  /// Whether the system grants it. Throws CudaError where the device is in trouble.
  bool add(const std::byte* host, size_t bytes) {
    if (bytes == 0) return true;
    const cudaError_t code = cudaHostRegister(const_cast<std::byte*>(host), bytes, cudaHostRegisterMapped);
    if (code == cudaSuccess) {
      pinned_.push_back(host);
      return true;
    }
    if (code != cudaErrorMemoryAllocation && code != cudaErrorNotSupported && code != cudaErrorNotPermitted &&
        code != cudaErrorInvalidValue) {
      check(code, "page-locking cold neurons");
    }
    cudaGetLastError();  // refused; nothing is broken by it
    return false;
  }

 private:
  std::vector<const std::byte*> pinned_;
};

}  // namespace hearth::cuda
