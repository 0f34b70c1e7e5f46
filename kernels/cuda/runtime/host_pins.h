// Page-locks host memory, so that the device can read it while the host works. The destructor unlocks it.
//
// One call page-locks a whole region or nothing. A region must not be locked in several ranges, because CUDA
// rejects a copy that begins in one page-locked range and ends in another, even if the ranges are adjacent. A
// region contains the neurons of one layer, some hundred megabytes. If the system refuses to lock a region,
// the regions that were locked before stay locked, and the caller may try further regions, which may be
// smaller.
//
// Owned by CudaHybridFfn, which waits for the device's work before it destroys this object. Regions are only
// added at load, by one thread.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

class HostPins {
 public:
  HostPins() = default;
  ~HostPins() {
    for (const Range& range : pinned_) cudaHostUnregister(const_cast<std::byte*>(range.begin));
  }
  HostPins(const HostPins&) = delete;
  HostPins& operator=(const HostPins&) = delete;

  /// Page-locks a region. Returns false if the system refuses. Throws CudaError if the device fails.
  bool add(const std::byte* host, size_t bytes) { return add(host, bytes, cudaHostRegisterMapped); }
  /// Like add(), but only for copies, not for kernels. Read-only pages, such as those of a mapped file, need
  /// a special flag.
  bool add_to_copy(const std::byte* host, size_t bytes) {
    return add(host, bytes, cudaHostRegisterDefault) || add(host, bytes, cudaHostRegisterReadOnly);
  }
  /// Whether the address is in a page-locked region.
  bool holds(const void* host) const {
    const auto* at = static_cast<const std::byte*>(host);
    return std::ranges::any_of(pinned_,
                               [at](const Range& r) { return at >= r.begin && at < r.begin + r.bytes; });
  }

 private:
  struct Range {
    const std::byte* begin;
    size_t bytes;
  };

  bool add(const std::byte* host, size_t bytes, unsigned flags) {
    if (bytes == 0) return true;
    const cudaError_t code = cudaHostRegister(const_cast<std::byte*>(host), bytes, flags);
    if (code == cudaSuccess) {
      pinned_.push_back({host, bytes});
      return true;
    }
    if (code != cudaErrorMemoryAllocation && code != cudaErrorNotSupported && code != cudaErrorNotPermitted &&
        code != cudaErrorInvalidValue && code != cudaErrorOperatingSystem &&
        code != cudaErrorHostMemoryAlreadyRegistered) {
      check(code, "page-locking host memory");
    }
    cudaGetLastError();  // clear the error, because the caller can work without the page lock
    return false;
  }

  std::vector<Range> pinned_;
};

}  // namespace hearth::cuda
