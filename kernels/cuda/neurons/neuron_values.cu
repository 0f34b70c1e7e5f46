// Computes the values of the listed neurons, in list order. The down projection multiplies the neurons' down
// rows by these values. The kernel also counts the neurons and rows for DeviceCounts.
//
// A thread handles one list index, for all tokens. For each count, a warp makes one atomic addition of an
// integer, so the order does not matter. The host reads the counts after the step.
#include "kernels/cuda/neurons/count_warps.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ bool wants(const DeviceNeuronSet& set, int64_t token, int32_t id) {
  return (set.wanted[token * ((set.n_neurons + 63) / 64) + id / 64] >> (id % 64) & 1) != 0;
}

/// act(gate) * up.
template <Activation kKind>
struct Gated {
  const float* gates;
  int64_t gates_stride;
  bool by_number;
  const float* ups;
  ActivationNumbers numbers;
  float threshold;

  __device__ float operator()(int64_t t, int64_t place, int32_t id, int64_t max, int& passed) const {
    const float gate = gates[t * gates_stride + (by_number ? id : place)];
    passed += gate <= threshold ? 0 : 1;  // NaN passes
    return gated<kKind>(gate, ups == nullptr ? nullptr : ups + t * max + place, numbers);
  }
};

/// Values that are already computed, by neuron number.
struct Known {
  const float* values;
  int64_t n_neurons;

  __device__ float operator()(int64_t t, int64_t /*place*/, int32_t id, int64_t /*max*/,
                              int& /*passed*/) const {
    return values[t * n_neurons + id];
  }
};

/// Whether the gate rows and the up rows of the listed neurons are counted as read.
struct RowsRead {
  bool gates, ups;
};

template <class Value>
__global__ void __launch_bounds__(kThreads)
    values_kernel(Value value_of, DeviceNeuronSet set, DeviceList list, RowsRead read, float* values,
                  DeviceCounts* counts) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int32_t n_proposed = *set.any.n, n_listed = *list.n;
  int proposed = 0, passed = 0, active = 0;
  if (place < n_proposed) {
    const int32_t id = set.any.ids[place];
    for (int t = 0; t < set.n_tokens; ++t) proposed += wants(set, t, id) ? 1 : 0;
  }
  if (place < n_listed) {
    const int32_t id = list.ids[place];
    for (int t = 0; t < set.n_tokens; ++t) {
      const float value = wants(set, t, id) ? value_of(t, place, id, list.max, passed) : 0.0f;
      values[t * list.max + place] = value;
      active += value != 0.0f ? 1 : 0;
    }
  }
  if (counts == nullptr) return;
  add_of_warp(proposed, &counts->proposed);
  add_of_warp(passed, &counts->passed);
  add_of_warp(active, &counts->active);
  add_of_warp(active > 0 ? 1 : 0, &counts->down_rows);
  if (place != 0) return;
  if (read.gates) atomicAdd(&counts->gate_rows, static_cast<unsigned long long>(n_proposed));
  if (read.ups) atomicAdd(&counts->up_rows, static_cast<unsigned long long>(n_listed));
}

template <class Value>
void launch(const Value& value_of, int n_read, const DeviceNeuronSet& set, const DeviceList& list,
            const RowsRead& read, float* values, DeviceCounts* counts, cudaStream_t stream) {
  if (set.n_tokens == 0 || set.any.max == 0) return;
  const auto blocks = static_cast<unsigned>((set.any.max + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              const int64_t n = *list.n;
              return KernelWork{.kind = KernelClass::kList,
                                .bytes = bit_sets(set.n_tokens, set.n_neurons) + floats(*set.any.n) +
                                         floats((1 + (1 + n_read) * set.n_tokens) * n)};
            },
            gpu_kernel<values_kernel<Value>>, blocks, kThreads, 0, stream, value_of, set, list, read, values,
            counts),
        "computing the values of neurons");
}

}  // namespace

void neuron_values(const GatedNeurons& neurons, float* values, DeviceCounts* counts, cudaStream_t stream) {
  const FfnActivation act = neurons.activation;
  visit_activation(act.kind, [&]<Activation kKind>() {
    launch(Gated<kKind>{neurons.gates, neurons.gates_stride, neurons.gates_by_number, neurons.ups,
                        numbers_of(act), act.threshold},
           neurons.ups == nullptr ? 1 : 2, neurons.set, neurons.passed,
           {.gates = !neurons.gates_by_number, .ups = neurons.ups != nullptr}, values, counts, stream);
  });
}

void listed_values(const DeviceNeuronSet& set, const float* by_number, float* values, DeviceCounts* counts,
                   cudaStream_t stream) {
  launch(Known{by_number, set.n_neurons}, 1, set, set.any, {}, values, counts, stream);
}

}  // namespace hearth::cuda
