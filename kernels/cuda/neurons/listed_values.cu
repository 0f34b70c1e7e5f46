// Copies values of listed neurons from neuron-number order to list order.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    listed_values_kernel(DeviceNeuronSet set, DeviceList list, const float* by_number, float* values) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int token = static_cast<int>(blockIdx.y);
  if (place >= *list.n) return;
  const int32_t id = list.ids[place];
  const int64_t words = (set.n_neurons + 63) / 64;
  const bool wanted = (set.wanted[token * words + id / 64] >> (id % 64) & 1) != 0;
  values[token * list.max + place] = wanted ? by_number[token * set.n_neurons + id] : 0.0f;
}

}  // namespace

void listed_values(const DeviceNeuronSet& set, const DeviceList& list, const float* by_number, float* values,
                   cudaStream_t stream) {
  if (set.n_tokens == 0 || list.max == 0) return;
  const dim3 grid(static_cast<unsigned>((list.max + kThreads - 1) / kThreads),
                  static_cast<unsigned>(set.n_tokens));
  check(gpu_launch(listed_values_kernel, grid, kThreads, 0, stream, set, list, by_number, values),
        "listing the values of neurons");
}

}  // namespace hearth::cuda
