// Sets a neuron's value to zero if its contribution is below a threshold, so that its down row need not be
// read.
#include "kernels/cuda/neurons/count_warps.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

/// Each thread handles one list index, for all tokens. The test is the same as in select_neurons().
__global__ void __launch_bounds__(kThreads)
    drop_below_kernel(DeviceNeuronSet set, DeviceList list, const float* sizes, float least, float* values,
                      DeviceCounts* counts) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t words = (set.n_neurons + 63) / 64;
  int kept = 0, active = 0;
  if (place < *list.n) {
    const int32_t id = list.ids[place];
    const float size = sizes[id];
    for (int t = 0; t < set.n_tokens; ++t) {
      if ((set.wanted[t * words + id / 64] >> (id % 64) & 1) == 0) continue;
      float* const value = values + t * list.max + place;
      if (__fmul_rn(fabsf(*value), size) < least) {  // false for NaN
        *value = 0.0f;
      } else {
        ++kept;
        active += *value != 0.0f ? 1 : 0;
      }
    }
  }
  add_of_warp(kept, &counts->proposed);
  add_of_warp(active, &counts->active);
  add_of_warp(active > 0 ? 1 : 0, &counts->down_rows);
}

}  // namespace

void drop_below(const DeviceNeuronSet& set, const DeviceList& list, const float* sizes, float least,
                float* values, DeviceCounts* counts, cudaStream_t stream) {
  if (set.n_tokens == 0 || list.max == 0) return;
  const auto blocks = static_cast<unsigned>((list.max + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              return KernelWork{.kind = KernelClass::kList,
                                .bytes = bit_sets(set.n_tokens, set.n_neurons) +
                                         floats((2 + set.n_tokens) * int64_t{*list.n})};
            },
            gpu_kernel<drop_below_kernel>, blocks, kThreads, 0, stream, set, list, sizes, least, values,
            counts),
        "dropping small contributions of neurons");
}

}  // namespace hearth::cuda
