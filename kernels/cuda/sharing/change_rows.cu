// Applies the neuron cache's changes: which neurons have a device row, and which row.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

/// Runs as one thread block, because the list is short and is read from the host's memory only once. If a
/// neuron changes several times the last change counts, so each thread checks whether a later change of its
/// neuron exists.
__global__ void __launch_bounds__(kThreads)
    change_rows_kernel(const RowChanges* changes, uint64_t* resident, int32_t* device_row) {
  __shared__ int32_t neurons[NeuronTraffic::kMaxChanges], device_rows[NeuronTraffic::kMaxChanges];
  const int n = changes->n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) {
    neurons[i] = changes->list[i].neuron;
    device_rows[i] = changes->list[i].device_row;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) {
    const int32_t neuron = neurons[i];
    bool is_last = true;
    for (int later = i + 1; later < n; ++later) is_last = is_last && neurons[later] != neuron;
    if (!is_last) continue;
    auto* word = reinterpret_cast<unsigned long long*>(resident + neuron / 64);
    const unsigned long long bit = 1ull << (neuron % 64);
    if (device_rows[i] < 0) {
      atomicAnd(word, ~bit);
    } else {
      device_row[neuron] = device_rows[i];
      atomicOr(word, bit);
    }
  }
}

}  // namespace

void change_rows(const RowChanges* changes, uint64_t* resident, int32_t* device_row, cudaStream_t stream) {
  check(gpu_launch(change_rows_kernel, 1, kThreads, 0, stream, changes, resident, device_row),
        "changing device rows of the neuron cache");
}

}  // namespace hearth::cuda
