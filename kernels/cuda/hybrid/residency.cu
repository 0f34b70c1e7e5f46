// Updates which neurons of a layer have a device row, splits sets of neurons accordingly, and hands the CPU's
// part over to the host.
#include "kernels/cuda/hybrid/hand_over.cuh"
#include "kernels/cuda/neurons/neuron_list.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

// Applies the neuron cache's changes: which neurons have a device row, and which row.
namespace {

constexpr int kThreads = 256;

/// One thread block of kThreads threads must call this. One thread block suffices for the short list, and
/// reads the list from host memory only once. If a neuron is in the list several times, only the last change
/// counts, so each thread checks whether its neuron has a later change.
__device__ __forceinline__ void apply_changes(const RowChanges* changes, uint64_t* resident,
                                              int32_t* device_row) {
  __shared__ int32_t neurons[RowPrefetcher::kMaxChanges], device_rows[RowPrefetcher::kMaxChanges];
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
    auto* word = gpu_aligned<unsigned long long>(resident + neuron / 64);
    const unsigned long long bit = 1ull << (neuron % 64);
    if (device_rows[i] < 0) {
      atomicAnd(word, ~bit);
    } else {
      device_row[neuron] = device_rows[i];
      atomicOr(word, bit);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    change_rows_kernel(const RowChanges* changes, uint64_t* resident, int32_t* device_row) {
  apply_changes(changes, resident, device_row);
}

}  // namespace

void change_rows(const RowChanges* changes, uint64_t* resident, int32_t* device_row, cudaStream_t stream) {
  check(gpu_launch(
            [=] {
              const double n = changes->n;
              return KernelWork{.kind = KernelClass::kList,
                                .bytes = 20 * n,
                                .host_reads = 4 + sizeof(RowChange) * n,
                                .decides = true};
            },
            gpu_kernel<change_rows_kernel>, 1, kThreads, 0, stream, changes, resident, device_row),
        "changing device rows of the neuron cache");
}

// Splits a set of neurons into neurons with a device row, and neurons without one, which the CPU computes.
namespace {

constexpr int kSplitThreads = 128;

__device__ __forceinline__ void split_word(const SplitSet& split, int64_t word, int64_t n_words) {
  const uint64_t here = split.resident[word];
  uint64_t any_wanted = 0;
  for (int t = 0; t < split.all.n_tokens; ++t) {
    const uint64_t wanted = split.all.wanted[t * n_words + word];
    split.hot.wanted[t * n_words + word] = wanted & here;
    split.cold[t * n_words + word] = wanted & ~here;
    any_wanted |= wanted;
  }
  split.hot.any_bits[word] = any_wanted & here;
  split.any[word] = any_wanted;
  split.any[n_words + word] = any_wanted & ~here;
}

__global__ void __launch_bounds__(kSplitThreads) split_kernel(SplitSet split, int64_t n_words) {
  const int64_t word = int64_t{blockIdx.x} * kSplitThreads + threadIdx.x;
  if (word < n_words) split_word(split, word, n_words);
}

/// The declared work of splitting a set, without the work of listing the neurons.
KernelWork split_work(const SplitSet& split) {
  const double cold = bit_sets(split.all.n_tokens + 2, split.all.n_neurons);
  KernelWork work{.kind = KernelClass::kList,
                  .bytes = bit_sets(2 * split.all.n_tokens + 2, split.all.n_neurons),
                  .decides = true};
  (split.cold_on_host ? work.host_writes : work.bytes) += cold;
  return work;
}

}  // namespace

void split_set(const SplitSet& split, cudaStream_t stream) {
  const DeviceNeuronSet& all = split.all;
  if (all.n_tokens > 0 && all.n_neurons > 0) {
    const int64_t n_words = (all.n_neurons + 63) / 64;
    const auto blocks = static_cast<unsigned>((n_words + kSplitThreads - 1) / kSplitThreads);
    check(gpu_launch([=] { return split_work(split); }, gpu_kernel<split_kernel>, blocks, kSplitThreads, 0,
                     stream, split, n_words),
          "splitting neurons by where they are");
  }
  list_wanted(split.hot, stream);
}

// For few tokens, one kernel does everything: the first thread block applies the changes and splits the set,
// while the other thread blocks copy `rest`, the inputs of the CPU. The last thread block to finish signals
// the host.
namespace {

static_assert(kThreads == kHandOverThreads);

__global__ void __launch_bounds__(kThreads)
    part_and_hand_over_kernel(SplitSet split, int64_t n_words, const RowChanges* changes, int32_t* device_row,
                              HandOver rest) {
  if (blockIdx.x == 0) {
    if (changes != nullptr) apply_changes(changes, split.resident, device_row);
    __syncthreads();
    for (int64_t word = threadIdx.x; word < n_words; word += kThreads) split_word(split, word, n_words);
    __syncthreads();
    list_in_block<kThreads>(split.hot.any_bits, n_words, split.hot.any);
  } else {
    copy_parts(rest, blockIdx.x - 1, gridDim.x - 1);
  }
  tell_host(rest);
}

}  // namespace

void part_and_hand_over(const SplitSet& split, const RowChanges* changes, int32_t* device_row,
                        const HandOver& rest, cudaStream_t stream) {
  if (split.all.n_tokens > kOneBlockTokens) {
    if (changes != nullptr) change_rows(changes, split.resident, device_row, stream);
    split_set(split, stream);
    return hand_over(rest, stream);
  }
  check(gpu_launch(
            [=] {
              KernelWork work = split_work(split);
              work.kind = KernelClass::kHandOver;
              const double n = changes == nullptr ? 0 : changes->n, copied = handed_over_bytes(rest);
              work.bytes += 20 * n + floats(*split.hot.any.n) + copied;
              work.host_reads = changes == nullptr ? 0 : 4 + sizeof(RowChange) * n;
              work.host_writes += copied;
              return work;
            },
            gpu_kernel<part_and_hand_over_kernel>, 1 + hand_over_blocks(rest), kThreads, 0, stream, split,
            (split.all.n_neurons + 63) / 64, changes, device_row, rest),
        "handing the CPU its share of the neurons");
}

}  // namespace hearth::cuda
