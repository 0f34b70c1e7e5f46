// Updates which neurons of a layer have a device row, and splits sets of neurons by it.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

// Applies the neuron cache's changes: which neurons have a device row, and which row.
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
  check(gpu_launch(
            [=] {
              const double n = changes->n;
              return KernelWork{.bytes = 20 * n, .host_reads = 4 + sizeof(RowChange) * n, .decides = true};
            },
            change_rows_kernel, 1, kThreads, 0, stream, changes, resident, device_row),
        "changing device rows of the neuron cache");
}

// Splits a set of neurons in two: those that have a device row, and the others, which the CPU computes.
namespace {

constexpr int kSplitThreads = 128;

__global__ void __launch_bounds__(kSplitThreads)
    split_kernel(const uint64_t* all, const uint64_t* resident, int n_tokens, int64_t n_words, uint64_t* hot,
                 uint64_t* cold, uint64_t* any_hot, uint64_t* any) {
  const int64_t word = int64_t{blockIdx.x} * kSplitThreads + threadIdx.x;
  if (word >= n_words) return;
  const uint64_t here = resident[word];
  uint64_t any_wanted = 0;
  for (int t = 0; t < n_tokens; ++t) {
    const uint64_t wanted = all[t * n_words + word];
    hot[t * n_words + word] = wanted & here;
    cold[t * n_words + word] = wanted & ~here;
    any_wanted |= wanted;
  }
  any_hot[word] = any_wanted & here;
  any[word] = any_wanted;
  any[n_words + word] = any_wanted & ~here;
}

}  // namespace

void split_set(const DeviceNeuronSet& all, const uint64_t* resident, const DeviceNeuronSet& hot,
               uint64_t* cold, uint64_t* any, void* scratch, cudaStream_t stream) {
  if (all.n_tokens == 0 || all.n_neurons == 0) return list_bits(nullptr, 0, hot.any, stream);
  const int64_t n_words = (all.n_neurons + 63) / 64;
  auto* any_hot = static_cast<uint64_t*>(scratch);
  const auto blocks = static_cast<unsigned>((n_words + kSplitThreads - 1) / kSplitThreads);
  check(
      gpu_launch(
          [=] { return KernelWork{.bytes = bit_sets(3 * all.n_tokens + 4, all.n_neurons), .decides = true}; },
          split_kernel, blocks, kSplitThreads, 0, stream, all.wanted, resident, all.n_tokens, n_words,
          hot.wanted, cold, any_hot, any),
      "parting neurons by where they are");
  list_bits(any_hot, all.n_neurons, hot.any, stream);
}

}  // namespace hearth::cuda
