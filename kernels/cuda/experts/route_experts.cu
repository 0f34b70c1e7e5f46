// Chooses each token's experts from the router's logits. The choice and the bits of the weights equal the
// CPU's (kernels/cpu/experts/expert_router.cpp).
//
// One warp handles a token. A model may have 48 layers that wait for this kernel in every step, and its time
// is a chain of latencies, which are shorter for warp operations than for barriers of a thread block. Scores
// and keys are in shared memory. Lane l handles experts l, l + 32, and so on. Each round takes the best
// remaining expert: every lane keeps its own best, two reductions find the best of the warp, and the lane
// with this expert searches for its next best.
#include "kernels/cuda/experts/group_few.cuh"
#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "kernels/cuda/rows/exponential.cuh"
#include "kernels/cuda/rows/reduce.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

/// route_and_group() is one launch if that needs at most this much dynamic shared memory. The total with
/// FewPairs stays within the 48 KB that a kernel may use without an opt-in.
constexpr size_t kMostSharedBytes = 40 << 10;

/// The shared memory of a warp while it chooses a token's experts.
struct TokenScratch {
  float* scores;  // [n_experts]
  // [n_experts] sort_key() of the score by which experts are chosen; 0: the expert is not available
  unsigned* keys;
  int32_t* slots;    // [n_experts]
  unsigned* groups;  // [n_groups] sort_key() of the group's score; 0: the group is used
  int32_t* chosen;   // [n_used]
  float* weights;    // [n_used]
};

__host__ __device__ int scratch_words(const Router& router) {
  return 3 * router.n_experts + router.n_groups + 2 * router.n_used;
}

__device__ __forceinline__ TokenScratch scratch_at(float* words, const Router& router) {
  const int n = router.n_experts;
  TokenScratch scratch;
  scratch.scores = words;
  scratch.keys = gpu_aligned<unsigned>(words + n);
  scratch.slots = gpu_aligned<int32_t>(words + 2 * n);
  scratch.groups = gpu_aligned<unsigned>(words + 3 * n);
  scratch.chosen = gpu_aligned<int32_t>(words + 3 * n + router.n_groups);
  scratch.weights = words + 3 * n + router.n_groups + router.n_used;
  return scratch;
}

/// Returns an integer above 0 for a float. These keys have the same order as the floats. Both zeros have the
/// same key. REQUIRES: value is not NaN.
__device__ __forceinline__ unsigned sort_key(float value) {
  const unsigned bits = __float_as_uint(__fadd_rn(value, 0.0f));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float float_of_key(unsigned key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

constexpr float kWorst = -__builtin_inff();

/// Returns the sum of x [n], added in the order of row_sum() in kernels/cpu/lanes/rows_inl.h. Each lane
/// computes two of the 64 chains.
__device__ __forceinline__ float warp_row_sum(const float* x, int n, int lane) {
  const int whole = n / kRowChains * kRowChains;
  float low = 0.0f, high = 0.0f;  // chains lane and lane + 32
  for (int i = lane; i < whole; i += kRowChains) {
    low = __fadd_rn(low, x[i]);
    high = __fadd_rn(high, x[i + 32]);
  }
  if (lane < kChainLanes) {
    for (int i = whole + lane; i < n; i += kChainLanes) low = __fadd_rn(low, x[i]);
  }
  float sum = __fadd_rn(__fadd_rn(low, __shfl_xor_sync(~0u, low, kChainLanes)),
                        __fadd_rn(high, __shfl_xor_sync(~0u, high, kChainLanes)));
  GPU_UNROLL
  for (int apart = kChainLanes / 2; apart > 0; apart /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, apart));
  }
  return sum;
}

/// Replaces x [n] by its softmax. As on the CPU, a NaN is ignored when the largest value is determined, but
/// makes the sum NaN.
__device__ __forceinline__ void warp_softmax(float* x, int n, int lane) {
  float most = kWorst;
  for (int i = lane; i < n; i += 32) most = x[i] > most ? x[i] : most;
  const float largest = float_of_key(gpu_warp_max(sort_key(most)));
  for (int i = lane; i < n; i += 32) x[i] = exponential(__fsub_rn(x[i], largest));
  __syncwarp();
  const float sum = warp_row_sum(x, n, lane);
  __syncwarp();
  for (int i = lane; i < n; i += 32) x[i] = __fdiv_rn(x[i], sum);
}

/// The largest key of a lane, and the lowest index that has this key.
struct LaneBest {
  unsigned key = 0, index = ~0u;

  __device__ __forceinline__ void find(const unsigned* keys, int n, int lane) {
    key = 0;
    for (int i = lane; i < n; i += 32) {
      const unsigned k = keys[i];
      index = k > key ? static_cast<unsigned>(i) : index;
      key = max(k, key);
    }
  }
};

/// Takes the n_wanted largest keys [n] in descending order, the lowest index first among equal keys. For
/// each, sets the key to 0 and calls take(number of keys taken before, index) in one lane. REQUIRES: at least
/// n_wanted keys are above 0.
template <class Take>
__device__ __forceinline__ void take_best(unsigned* keys, int n, int n_wanted, int lane, Take&& take) {
  LaneBest best;
  best.find(keys, n, lane);
  for (int j = 0; j < n_wanted; ++j) {
    const unsigned key = gpu_warp_max(best.key);
    const unsigned index = gpu_warp_min(best.key == key ? best.index : ~0u);
    if (best.key != key || best.index != index) continue;
    keys[index] = 0;
    take(j, static_cast<int>(index));
    best.find(keys, n, lane);
  }
  __syncwarp();
}

/// Makes the experts of all groups unavailable, except for the best groups.
__device__ __forceinline__ void keep_best_groups(const Router& router, const TokenScratch& scratch,
                                                 int lane) {
  const int size = router.n_experts / router.n_groups;
  for (int g = lane; g < router.n_groups; g += 32) {
    unsigned best = 0, second = 0;
    for (int i = 0; i < size; ++i) {
      // Lanes start at different experts of their groups to avoid bank conflicts: if the group size is a
      // multiple of 32, equal offsets would all be in one bank.
      const unsigned key = scratch.keys[g * size + (i + lane) % size];
      second = max(second, min(best, key));
      best = max(best, key);
    }
    if (!router.group_by_best && size > 1 && second != sort_key(kWorst)) {
      best = sort_key(__fadd_rn(float_of_key(best), float_of_key(second)));
    } else if (!router.group_by_best && size > 1) {
      best = second;  // -infinity; the sum of opposite infinities would be NaN
    }
    scratch.groups[g] = best;
  }
  __syncwarp();
  take_best(scratch.groups, router.n_groups, router.n_groups_used, lane, [](int, int) {});
  for (int e = lane; e < router.n_experts; e += 32) {
    if (scratch.groups[e / size] != 0) scratch.keys[e] = 0;
  }
}

/// Fills scores, slots and keys. Returns whether NaN is among the scores by which experts are chosen.
__device__ __forceinline__ bool fill_scores(const float* logits, const Router& router, const int32_t* slot_of,
                                            const TokenScratch& scratch, int lane) {
  const int n = router.n_experts;
#pragma unroll 4
  for (int e = lane; e < n; e += 32) {
    const float logit = __ldg(logits + e);
    scratch.slots[e] = slot_of == nullptr ? -1 : __ldg(slot_of + e);
    scratch.scores[e] = router.score == RouterScore::kSigmoid ? sigmoid(logit) : logit;
  }
  if (router.score == RouterScore::kSoftmax) warp_softmax(scratch.scores, n, lane);
  bool any_nan = false;
#pragma unroll 4
  for (int e = lane; e < n; e += 32) {
    float preference = scratch.scores[e];
    if (router.choice_bias != nullptr) preference = __fadd_rn(preference, __ldg(router.choice_bias + e));
    const bool is_nan = preference != preference;
    any_nan |= is_nan;
    scratch.keys[e] = sort_key(is_nan ? kWorst : preference);
  }
  __syncwarp();
  return __any_sync(~0u, any_nan ? 1 : 0) != 0;
}

/// Fills the weights of the chosen experts.
__device__ __forceinline__ void weigh(const Router& router, const TokenScratch& scratch, int lane) {
  const int n = router.n_used;
  for (int j = lane; j < n; j += 32) scratch.weights[j] = scratch.scores[scratch.chosen[j]];
  if (router.score == RouterScore::kSoftmaxOfChosen) warp_softmax(scratch.weights, n, lane);
  __syncwarp();
  if (!router.renormalize) return;
  float sum = 0.0f;
  for (int j = 0; j < n; ++j) sum = __fadd_rn(sum, scratch.weights[j]);
  __syncwarp();
  if (sum == 0.0f) return;
  for (int j = lane; j < n; j += 32) scratch.weights[j] = __fdiv_rn(scratch.weights[j], sum);
}

/// A thread block has one warp per token. If groups.tiles is not null, the grid has one thread block, which
/// also groups the pairs. Without the minimum of one thread block per multiprocessor, ptxas spills registers.
__global__ void __launch_bounds__(32 * kOneBlockTokens, 1)
    route_kernel(const float* logits, Router router, const int32_t* slot_of, DeviceChoice choice,
                 ExpertGroups groups) {
  GPU_DYN_SHARED(float, words);
  __shared__ FewPairs few;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t token = int64_t{blockIdx.x} * (blockDim.x / 32) + warp;
  const TokenScratch scratch = scratch_at(words + warp * scratch_words(router), router);
  const bool any_nan = fill_scores(logits + token * router.n_experts, router, slot_of, scratch, lane);
  if (router.n_groups_used < router.n_groups) keep_best_groups(router, scratch, lane);
  __syncwarp();
  take_best(scratch.keys, router.n_experts, router.n_used, lane,
            [&](int j, int expert) { scratch.chosen[j] = expert; });
  weigh(router, scratch, lane);
  for (int j = lane; j < router.n_used; j += 32) {
    const int64_t pair = token * router.n_used + j;
    const int expert = scratch.chosen[j];
    float weight = __fmul_rn(scratch.weights[j], router.scale);
    if (router.weight_scales != nullptr) weight = __fmul_rn(weight, __ldg(router.weight_scales + expert));
    choice.experts[pair] = expert;
    choice.weights[pair] = any_nan ? __uint_as_float(0x7fc00000u) : weight;
    choice.slots[pair] = scratch.slots[expert];
  }
  if (groups.tiles == nullptr) return;
  __syncthreads();
  group_few(choice, groups, few);
}

__global__ void change_slot_kernel(int32_t* slot_of, int32_t slot, int32_t expert, int32_t evicted) {
  slot_of[evicted] = -1;
  slot_of[expert] = slot;
}

void launch_route(const float* logits, const Router& router, const int32_t* slot_of,
                  const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream) {
  const int warps = groups.tiles == nullptr ? 1 : choice.n_tokens;
  const auto bytes = static_cast<size_t>(warps * scratch_words(router)) * sizeof(float);
  check(gpu_launch(
            [=] {
              const int64_t n_logits = int64_t{choice.n_tokens} * router.n_experts;
              double touched = floats(n_logits + 3 * choice.n_pairs());
              if (slot_of != nullptr) touched += floats(router.n_experts);
              if (router.choice_bias != nullptr) touched += floats(router.n_experts);
              if (router.weight_scales != nullptr) touched += floats(choice.n_pairs());
              if (groups.tiles != nullptr) touched += floats(2 * choice.n_pairs() + 4 * groups.max_tiles);
              const bool simulated = simulate_route({.n_tokens = choice.n_tokens,
                                                     .n_used = choice.n_used,
                                                     .slot_of = slot_of,
                                                     .experts = choice.experts,
                                                     .places = choice.slots});
              if (simulated && groups.tiles != nullptr) group_pairs_on_host(choice, groups);
              return KernelWork{.kind = KernelClass::kList, .bytes = touched, .decides = !simulated};
            },
            gpu_kernel<route_kernel>, static_cast<unsigned>(choice.n_tokens / warps),
            static_cast<unsigned>(32 * warps), bytes, stream, logits, router, slot_of, choice, groups),
        "choosing experts");
}

}  // namespace

void route(const float* logits, const Router& router, const int32_t* slot_of, const DeviceChoice& out,
           cudaStream_t stream) {
  if (out.n_tokens == 0) return;
  launch_route(logits, router, slot_of, out, {}, stream);
}

void route_and_group(const float* logits, const Router& router, const int32_t* slot_of,
                     const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream) {
  if (choice.n_tokens == 0) return;
  const size_t words = static_cast<size_t>(choice.n_tokens) * static_cast<size_t>(scratch_words(router));
  if (choice.n_tokens <= kOneBlockTokens && words * sizeof(float) <= kMostSharedBytes) {
    launch_route(logits, router, slot_of, choice, groups, stream);
  } else {
    launch_route(logits, router, slot_of, choice, {}, stream);
    group_pairs(choice, groups, stream);
  }
}

void change_slot(int32_t* slot_of, int32_t slot, int32_t expert, int32_t evicted, cudaStream_t stream) {
  check(gpu_launch([] { return KernelWork{.kind = KernelClass::kList, .bytes = floats(2), .decides = true}; },
                   gpu_kernel<change_slot_kernel>, 1, 1, 0, stream, slot_of, slot, expert, evicted),
        "changing the expert of a slot");
}

}  // namespace hearth::cuda
