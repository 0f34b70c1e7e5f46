// What a sparse FFN found, counted on the device or noted in host memory, so that the host need not wait.
#include "kernels/cuda/neurons/count_warps.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

}  // namespace

// Counts with integer atomics, whose order does not matter. One thread counts one list index for all tokens, and one
// word of the set.
namespace {

__global__ void __launch_bounds__(kThreads) count_neurons_kernel(CountOp op, DeviceCounts* counts) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t words = (op.set.n_neurons + 63) / 64;
  int proposed = 0, passed = 0, active = 0, down_rows = 0;
  if (at < *op.set.any.n) {
    const int32_t id = op.set.any.ids[at];
    for (int t = 0; t < op.set.n_tokens; ++t) {
      proposed += static_cast<int>(op.set.wanted[t * words + id / 64] >> (id % 64) & 1);
    }
  }
  if (at < *op.passed.n) {
    const int32_t id = op.passed.ids[at];
    for (int t = 0; t < op.set.n_tokens; ++t) {
      if ((op.set.wanted[t * words + id / 64] >> (id % 64) & 1) == 0) continue;
      if (op.gates != nullptr) {
        const float gate = op.gates[t * op.gates_stride + (op.gates_by_number ? id : at)];
        passed += gate <= op.activation.threshold ? 0 : 1;  // NaN passes
      }
      active += op.values[t * op.passed.max + at] != 0.0f ? 1 : 0;
    }
    down_rows = active > 0 ? 1 : 0;
  }
  add_of_warp(proposed, &counts->proposed);
  add_of_warp(passed, &counts->passed);
  add_of_warp(active, &counts->active);
  add_of_warp(down_rows, &counts->down_rows);
  if (at == 0) {
    if (op.read_gates) atomicAdd(&counts->gate_rows, static_cast<unsigned long long>(*op.set.any.n));
    if (op.read_ups) atomicAdd(&counts->up_rows, static_cast<unsigned long long>(*op.passed.n));
  }
}

}  // namespace

void count_neurons(const CountOp& op, DeviceCounts* counts, cudaStream_t stream) {
  if (op.set.n_tokens == 0 || op.set.any.max == 0) return;
  const auto blocks = static_cast<unsigned>((op.set.any.max + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              return KernelWork{
                  .bytes = bit_sets(op.set.n_tokens, op.set.n_neurons) +
                           floats(int64_t{*op.set.any.n} + (2 * op.set.n_tokens + 1) * *op.passed.n)};
            },
            count_neurons_kernel, blocks, kThreads, 0, stream, op, counts),
        "counting neurons");
}

// Notes which neurons a call found active, with their values, in host memory. Counting single neurons uses
// it.
//
// A thread has one list index, for all tokens, and neighbours write side by side over PCIe: 4 bytes for a neuron
// and 4 for each of its tokens. A call whose neurons are computed in several lists appends list to list. Only
// the device knows how many came before, so the last thread block of each list keeps count.
namespace {

__global__ void __launch_bounds__(kThreads) note_kernel(const int32_t* ids, const int32_t* n, int64_t max,
                                                        const float* values, int n_tokens, NeuronNotes to) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const uint32_t before = to.first ? 0 : to.state[1];
  const int32_t n_listed = *n;
  if (place < n_listed) {
    to.ids[before + place] = ids[place];
    for (int t = 0; t < n_tokens; ++t) to.values[t * to.max + before + place] = values[t * max + place];
  }
  // Wait until all have read state[1], because the last thread block changes it.
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
              return KernelWork{.bytes = of_list, .host_writes = of_list};
            },
            note_kernel, blocks, kThreads, 0, stream, list.ids, list.n, list.max, values, n_tokens, to),
        "noting active neurons");
}

}  // namespace hearth::cuda
