// Writes the neurons that a call found active, and their values, to host memory, where they are counted
// neuron by neuron.
//
// A thread handles one list index, for all tokens. Neighboring threads write adjacent words over PCIe: 4
// bytes per neuron, and 4 bytes per neuron and token. If the neurons of a call are computed in several lists,
// each list is appended to the previous ones. Only the device knows the number of neurons noted so far, so
// the last thread block to finish a list updates this number.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) note_kernel(const int32_t* ids, const int32_t* n, int64_t max,
                                                        const float* values, int n_tokens, NeuronNotes to) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const uint32_t before = to.first ? 0 : to.state[1];
  const int32_t n_listed = *n;
  if (place < n_listed) {
    to.ids[before + place] = ids[place];
    for (int t = 0; t < n_tokens; ++t) to.values[t * to.max + before + place] = values[t * max + place];
  }
  // All threads must have read state[1] before the last thread block changes it.
  __syncthreads();
  if (threadIdx.x != 0 || gpu_arrive(&to.state[0]) + 1 != gridDim.x) return;
  to.state[0] = 0;
  to.state[1] = before + static_cast<uint32_t>(n_listed);
  *to.n = to.state[1];
}

}  // namespace

void note_neurons(const DeviceList& list, const float* values, int n_tokens, const NeuronNotes& to,
                  cudaStream_t stream) {
  if (list.max == 0) return;
  const auto blocks = static_cast<unsigned>((list.max + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              const double of_list = floats((n_tokens + 1) * int64_t{*list.n});
              return KernelWork{.kind = KernelClass::kList, .bytes = of_list, .host_writes = of_list};
            },
            gpu_kernel<note_kernel>, blocks, kThreads, 0, stream, list.ids, list.n, list.max, values,
            n_tokens, to),
        "noting active neurons");
}

}  // namespace hearth::cuda
