// Single PTX instructions as functions: the emulator's bodies. kernels/cuda/gpu.h has those for a device, and
// says what they do.
#pragma once

#include "tests/support/cudaemu/device_thread.h"

namespace hearth::cuda {

inline void gpu_cp_async16(void* shared, const void* global) { cudaemu::async_copy(shared, global, 16); }
inline void gpu_cp_async_commit() { cudaemu::async_commit(); }
template <int N>
void gpu_cp_async_wait() {
  cudaemu::async_wait(N);
}

}  // namespace hearth::cuda
