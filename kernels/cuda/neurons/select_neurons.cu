// Finds the active neurons: as bits for each token, and as a list for all tokens of a call.
#include "kernels/cuda/neurons/neuron_list.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

// Lists the set bits of a layer's words in ascending order.
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
  check(gpu_launch(
            [=] {
              return KernelWork{.kind = KernelClass::kList,
                                .bytes = bit_sets(1, n_neurons) + floats(*list.n),
                                .decides = true};
            },
            gpu_kernel<list_kernel>, list_blocks(n_neurons), kListThreads, 0, stream, bits,
            (n_neurons + 63) / 64, first, list.ids, list.n),
        "listing neurons");
}

// Finds the scores that are not below a threshold. The results are bits for each token, and bits for all
// tokens together.
namespace {

__global__ void __launch_bounds__(kListThreads)
    score_kernel(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
                 uint64_t* wanted, uint64_t* any) {
  const int64_t n_words = (n_neurons + 63) / 64;
  const auto matters = [&](int t, int64_t j) {
    const float value = values[t * n_neurons + j];
    const float score = sizes == nullptr ? value : __fmul_rn(fabsf(value), sizes[j]);
    return !(score < at_least);  // true for NaN
  };
  find_bits(n_tokens, n_neurons, any, matters,
            [&](int t, int64_t word, uint64_t bits) { wanted[t * n_words + word] = bits; });
}

}  // namespace

void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons, float at_least,
                    const DeviceNeuronSet& set, cudaStream_t stream) {
  if (n_tokens == 0 || n_neurons == 0) return;
  check(gpu_launch(
            [=] {
              return KernelWork{.kind = KernelClass::kList,
                                .bytes = floats(n_tokens * n_neurons) + bit_sets(n_tokens + 1, n_neurons),
                                .decides = true};
            },
            gpu_kernel<score_kernel>, find_blocks(n_neurons), kListThreads, 0, stream, values, sizes,
            n_tokens, n_neurons, at_least, set.wanted, set.any_bits),
        "selecting neurons");
}

void list_wanted(const DeviceNeuronSet& set, cudaStream_t stream) {
  list_bits(set.any_bits, set.n_tokens == 0 ? 0 : set.n_neurons, set.any, stream);
}

// Makes a second list from the neurons of a list whose act(gate) is not zero, and copies their gates. Only
// the neurons of the second list need their up and down rows read. For few tokens, one thread block tests and
// lists. For many tokens, one kernel tests and another lists.
namespace {

constexpr int kKeepThreads = 1024;
// list indices that a thread handles at a time, so that their gates are loaded at the same time
constexpr int kHeld = 4;

// The second launch bound, at least one thread block per multiprocessor, lets ptxas use more registers.
// Without this bound, ptxas leaves room for two thread blocks, so each thread has only 32 registers, and the
// kernel spills on sm_90.
template <Activation kKind>
__global__ void __launch_bounds__(kKeepThreads, 1)
    keep_in_block_kernel(ActivationNumbers numbers, const uint64_t* wanted, int64_t set_words, int n_tokens,
                         DeviceList in, const float* gates, int64_t gates_stride, DeviceList out,
                         float* gates_out) {
  const int64_t n_listed = *in.n;
  int kept = 0;
  for (int64_t begin = 0; begin < n_listed; begin += kKeepThreads * kHeld) {
    const int64_t first = begin + threadIdx.x * kHeld;
    int32_t ids[kHeld];
    bool passed[kHeld];
    int count = 0;
    GPU_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      ids[k] = first + k < n_listed ? in.ids[first + k] : -1;
      passed[k] = false;
      for (int t = 0; t < n_tokens && ids[k] >= 0; ++t) {
        passed[k] |= (wanted[t * set_words + ids[k] / 64] >> (ids[k] % 64) & 1) != 0 &&
                     activated<kKind>(gates[t * gates_stride + first + k], numbers) != 0.0f;
      }
      count += passed[k] ? 1 : 0;
    }
    int total;
    int place = kept + sum_before<kKeepThreads>(count, total);
    kept += total;
    GPU_UNROLL
    for (int k = 0; k < kHeld; ++k) {
      if (!passed[k]) continue;
      out.ids[place] = ids[k];
      for (int t = 0; t < n_tokens; ++t) gates_out[t * out.max + place] = gates[t * gates_stride + first + k];
      ++place;
    }
  }
  if (threadIdx.x == 0) *out.n = kept;
}

template <Activation kKind>
__global__ void __launch_bounds__(kListThreads)
    pass_kernel(ActivationNumbers numbers, const uint64_t* wanted, int64_t set_words, int n_tokens,
                const int32_t* ids, const int32_t* n, int64_t max, const float* gates, int64_t gates_stride,
                uint64_t* passed) {
  const int64_t n_listed = *n;
  const auto passes = [&](int t, int64_t i) {
    if (i >= n_listed) return false;
    const int32_t id = ids[i];
    return (wanted[t * set_words + id / 64] >> (id % 64) & 1) != 0 &&
           activated<kKind>(gates[t * gates_stride + i], numbers) != 0.0f;
  };
  find_bits(n_tokens, max, passed, passes, [](int, int64_t, uint64_t) {});
}

__global__ void __launch_bounds__(kListThreads)
    keep_kernel(const uint64_t* passed, int64_t n_words, int n_tokens, const int32_t* ids, const float* gates,
                int64_t gates_stride, int32_t* ids_out, int32_t* n_out, int64_t max_out, float* gates_out) {
  for_each_listed(passed, n_words, n_out, [&](int64_t i, int place) {
    ids_out[place] = ids[i];
    for (int t = 0; t < n_tokens; ++t) gates_out[t * max_out + place] = gates[t * gates_stride + i];
  });
}

}  // namespace

size_t keep_scratch_bytes(int64_t n_neurons) { return static_cast<size_t>((n_neurons + 63) / 64) * 8; }

void keep_passed(FfnActivation act, const DeviceNeuronSet& set, const DeviceList& in, const float* gates,
                 int64_t gates_stride, const DeviceList& out, float* gates_out, void* scratch,
                 cudaStream_t stream) {
  if (set.n_tokens == 0 || in.max == 0) return list_bits(nullptr, 0, out, stream);
  if (set.n_tokens <= kOneBlockTokens) {
    visit_activation(act.kind, [&]<Activation kKind>() {
      check(gpu_launch(
                [=] {
                  return KernelWork{.kind = KernelClass::kList,
                                    .bytes = 2 * floats((set.n_tokens + 1) * int64_t{*in.n}) +
                                             bit_sets(set.n_tokens, set.n_neurons),
                                    .decides = true};
                },
                gpu_kernel<keep_in_block_kernel<kKind>>, 1, kKeepThreads, 0, stream, numbers_of(act),
                set.wanted, (set.n_neurons + 63) / 64, set.n_tokens, in, gates, gates_stride, out, gates_out),
            "keeping the neurons whose gates passed");
    });
    return;
  }
  auto* passed = gpu_aligned<uint64_t>(scratch);
  visit_activation(act.kind, [&]<Activation kKind>() {
    check(gpu_launch(
              [=] {
                return KernelWork{.kind = KernelClass::kList,
                                  .bytes = floats((set.n_tokens + 1) * int64_t{*in.n}) +
                                           bit_sets(set.n_tokens, set.n_neurons) + bit_sets(1, in.max),
                                  .decides = true};
              },
              gpu_kernel<pass_kernel<kKind>>, find_blocks(in.max), kListThreads, 0, stream, numbers_of(act),
              set.wanted, (set.n_neurons + 63) / 64, set.n_tokens, in.ids, in.n, in.max, gates, gates_stride,
              passed),
          "testing the gates of neurons");
  });
  check(gpu_launch(
            [=] {
              return KernelWork{
                  .kind = KernelClass::kList,
                  .bytes = bit_sets(1, in.max) + 2 * floats((set.n_tokens + 1) * int64_t{*in.n}),
                  .decides = true};
            },
            gpu_kernel<keep_kernel>, list_blocks(in.max), kListThreads, 0, stream, passed, (in.max + 63) / 64,
            set.n_tokens, in.ids, gates, gates_stride, out.ids, out.n, out.max, gates_out),
        "listing the neurons whose gates passed");
}

}  // namespace hearth::cuda
