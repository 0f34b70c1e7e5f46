// Sums counts within a warp before one thread adds them to memory.
#pragma once

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// Adds the warp's values to *sum. They are integers, so the order of the additions does not matter.
__device__ inline void add_of_warp(int value, unsigned long long* sum) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0 && value != 0) atomicAdd(sum, static_cast<unsigned long long>(value));
}

}  // namespace hearth::cuda
