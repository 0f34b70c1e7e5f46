// Keeps the neurons of a list whose act(gate) is not zero, and their gates: up and down are read only for
// these.
#include "kernels/cuda/neurons/neuron_list.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/runtime/error.h"

namespace hearth::cuda {
namespace {

template <Activation kKind>
__global__ void __launch_bounds__(kListThreads)
    pass_kernel(float at_least, const uint64_t* wanted, int64_t set_words, int n_tokens, const int32_t* ids,
                const int32_t* n, int64_t max, const float* gates, int64_t gates_stride, uint64_t* passed) {
  const int64_t n_listed = *n;
  const auto passes = [&](int t, int64_t i) {
    if (i >= n_listed) return false;
    const int32_t id = ids[i];
    return (wanted[t * set_words + id / 64] >> (id % 64) & 1) != 0 &&
           activated<kKind>(gates[t * gates_stride + i], at_least) != 0.0f;
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

void keep_passed(FfnActivation act, const DeviceNeuronSet& set, const DeviceList& in, const float* gates,
                 int64_t gates_stride, const DeviceList& out, float* gates_out, void* scratch,
                 cudaStream_t stream) {
  if (set.n_tokens == 0 || in.max == 0) return list_bits(nullptr, 0, out, stream);
  auto* passed = static_cast<uint64_t*>(scratch);
  visit_activation(act.kind, [&]<Activation kKind>() {
    check(gpu_launch(pass_kernel<kKind>, find_blocks(in.max), kListThreads, 0, stream, least_kept(act),
                     set.wanted, (set.n_neurons + 63) / 64, set.n_tokens, in.ids, in.n, in.max, gates,
                     gates_stride, passed),
          "testing the gates of neurons");
  });
  check(gpu_launch(keep_kernel, list_blocks(in.max), kListThreads, 0, stream, passed, (in.max + 63) / 64,
                   set.n_tokens, in.ids, gates, gates_stride, out.ids, out.n, out.max, gates_out),
        "listing the neurons whose gates passed");
}

}  // namespace hearth::cuda
