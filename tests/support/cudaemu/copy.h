// Enqueues copies and fills in a stream, after checking them against the allocations that they touch.
#pragma once

#include <driver_types.h>

#include <cstddef>

namespace hearth::cudaemu {

/// Rows of `width` bytes, `to_pitch` and `from_pitch` apart; a plain copy is one row.
struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t width, height;
};

/// Enqueues a copy. Returns cudaErrorInvalidValue if a range leaves its allocation, or is not in the memory
/// that `kind` names. Pageable memory is handled as the driver does it: a copy to the device reads it before
/// the call returns, and a copy from the device makes the call wait. Both are counted.
cudaError_t copy_async(const Copy& copy, cudaMemcpyKind kind, cudaStream_t stream);
/// Enqueues a fill of device memory.
cudaError_t fill_async(void* to, int value, size_t n_bytes, cudaStream_t stream);

}  // namespace hearth::cudaemu
