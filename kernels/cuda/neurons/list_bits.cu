// The set bits of a layer's words as an ascending list.
#include "kernels/cuda/neurons/neuron_list.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"

namespace hearth::cuda {
namespace {

__global__ void __launch_bounds__(kListThreads)
    list_kernel(const uint64_t* bits, int64_t n_words, int64_t first, int32_t* ids, int32_t* n) {
  for_each_listed(bits, n_words, n,
                  [&](int64_t j, int place) { ids[place] = static_cast<int32_t>(first + j); });
}

}  // namespace

void list_bits(const uint64_t* bits, int64_t n_neurons, const DeviceList& list, cudaStream_t stream,
               int64_t first) {
  if (n_neurons == 0) {
    check(cudaMemsetAsync(list.n, 0, sizeof(int32_t), stream), "emptying a list of neurons");
    return;
  }
  check(gpu_launch(list_kernel, list_blocks(n_neurons), kListThreads, 0, stream, bits, (n_neurons + 63) / 64,
                   first, list.ids, list.n),
        "listing neurons");
}

}  // namespace hearth::cuda
