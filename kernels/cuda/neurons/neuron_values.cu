// The values that the down projection multiplies, in the order of a list.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

}  // namespace

// act(gate) * up, for tokens that want the neuron.
namespace {

/// Thread block (b, t): 256 list indices of token t.
template <Activation kKind>
__global__ void __launch_bounds__(kThreads)
    values_kernel(float at_least, const uint64_t* wanted, int64_t set_words, const int32_t* ids,
                  const int32_t* n, int64_t max, const float* gates, int64_t gates_stride,
                  bool gates_by_number, const float* ups, float* values) {
  const int64_t t = blockIdx.y, i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= *n) return;
  const int32_t id = ids[i];
  float value = 0.0f;
  if ((wanted[t * set_words + id / 64] >> (id % 64) & 1) != 0) {
    const float gate = gates[t * gates_stride + (gates_by_number ? id : i)];
    value = gated<kKind>(gate, ups == nullptr ? nullptr : ups + t * max + i, at_least);
  }
  values[t * max + i] = value;
}

}  // namespace

void neuron_values(FfnActivation act, const DeviceNeuronSet& set, const DeviceList& list, const float* gates,
                   int64_t gates_stride, bool gates_by_number, const float* ups, float* values,
                   cudaStream_t stream) {
  if (set.n_tokens == 0 || list.max == 0) return;
  const auto blocks = static_cast<unsigned>((list.max + kThreads - 1) / kThreads);
  visit_activation(act.kind, [&]<Activation kKind>() {
    check(gpu_launch(
              [=] {
                const int64_t n = *list.n;
                return KernelWork{.bytes = bit_sets(set.n_tokens, set.n_neurons) +
                                           floats((1 + (ups == nullptr ? 2 : 3) * set.n_tokens) * n)};
              },
              values_kernel<kKind>, dim3(blocks, static_cast<unsigned>(set.n_tokens)), kThreads, 0, stream,
              least_kept(act), set.wanted, (set.n_neurons + 63) / 64, list.ids, list.n, list.max, gates,
              gates_stride, gates_by_number, ups, values),
          "computing the values of neurons");
  });
}

// Copies values of listed neurons from neuron-number order to list order.
namespace {

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
  check(gpu_launch(
            [=] {
              return KernelWork{.bytes = bit_sets(set.n_tokens, set.n_neurons) +
                                         floats((1 + 2 * set.n_tokens) * int64_t{*list.n})};
            },
            listed_values_kernel, grid, kThreads, 0, stream, set, list, by_number, values),
        "listing the values of neurons");
}

}  // namespace hearth::cuda
