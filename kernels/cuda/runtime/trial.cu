// Implements the trial kernel, which is one warp. Each thread multiplies and then reads its neighbor's
// number, so that code that computes wrong results is also noticed.
#include "kernels/cuda/runtime/trial.h"

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr uint32_t kFactor = 2654435761u;  // odd and large, so that the products differ in many bits
constexpr unsigned kLanes = 32;

__global__ void trial_kernel(uint32_t* out) {
  const uint32_t own = (threadIdx.x + 1) * kFactor;
  out[threadIdx.x] = own ^ __shfl_xor_sync(0xffffffffu, own, 1);
}

}  // namespace

cudaError_t launch_trial(TrialNumbers* out, cudaStream_t stream) {
  return gpu_launch([] { return KernelWork{.host_writes = sizeof(TrialNumbers), .decides = true}; },
                    gpu_kernel<trial_kernel>, 1, kLanes, 0, stream, out->data());
}

TrialNumbers expected_of_trial() {
  TrialNumbers numbers;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    numbers[lane] = (lane + 1) * kFactor ^ ((lane ^ 1) + 1) * kFactor;
  }
  return numbers;
}

}  // namespace hearth::cuda
