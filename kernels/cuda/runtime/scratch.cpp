// See kernels/cuda/cuda_backend.h: what a plan asks.
#include "kernels/cuda/runtime/scratch.h"

#include "kernels/cuda/cuda_backend.h"

namespace hearth::cuda {

size_t scratch_bytes(const StepBounds& bounds) {
  Arena counting;
  Scratch(counting, bounds);
  return counting.used();
}

}  // namespace hearth::cuda
