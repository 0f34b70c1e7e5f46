// Adds counts up within a warp, so that only one thread adds to memory.
#pragma once

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// Adds the values of all threads of the warp to *sum. The values are integers, so the order of additions
/// does not matter.
__device__ inline void add_of_warp(int value, unsigned long long* sum) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0 && value != 0) atomicAdd(sum, static_cast<unsigned long long>(value));
}

}  // namespace hearth::cuda
