// Sorts a step's resident pairs by slot: a stable counting sort in one launch, without communication between
// thread blocks.
//
// A thread block lists the rows of one slot. It first counts all pairs by slot in shared memory, which gives
// the first row and the first tile of its slot. Then it reads the pairs again and numbers the pairs of its
// slot. Each warp processes one range of the pairs, so a pair's rank follows from a vote of its warp and from
// the counts of earlier warps. Every thread block reads the slots of all pairs twice from the L2 cache, 4
// bytes each: 128 KB for 4096 tokens with 8 experts each.
#include <algorithm>
#include <array>

#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"
#include "kernels/memory.h"

namespace hearth::cuda {
namespace {

constexpr int kMostThreads = 1024, kLeastThreads = 64;

struct SlotCounts {
  int pairs_of[kMostExperts];     // by slot
  int own_of[kMostThreads / 32];  // by warp: number of its pairs with the thread block's slot
  int first_row, first_tile;      // of the thread block's slot
  int expert;
};

/// Computes the counts that a thread block needs before it can number the pairs of its slot.
__device__ __forceinline__ void count_pairs(const DeviceChoice& choice, int begin, int end, int n_slots,
                                            int tile_rows, SlotCounts& shared) {
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int own = static_cast<int>(blockIdx.x);
  for (int slot = thread; slot < n_slots; slot += n_threads) shared.pairs_of[slot] = 0;
  if (thread == 0) shared.first_row = shared.first_tile = shared.expert = 0;
  __syncthreads();
  int n_own = 0;
#pragma unroll 4
  for (int pair = begin + thread % 32; pair < end; pair += 32) {
    const int slot = choice.slots[pair];
    if (slot >= 0) atomicAdd(&shared.pairs_of[slot], 1);
    if (slot == own) atomicMax(&shared.expert, choice.experts[pair]);  // they are equal
    n_own += slot == own ? 1 : 0;
  }
  GPU_UNROLL
  for (int apart = 16; apart > 0; apart /= 2) n_own += __shfl_xor_sync(~0u, n_own, apart);
  if (thread % 32 == 0) shared.own_of[thread / 32] = n_own;
  __syncthreads();
  int rows = 0, tiles = 0;
  for (int slot = thread; slot < own; slot += n_threads) {
    rows += shared.pairs_of[slot];
    tiles += (shared.pairs_of[slot] + tile_rows - 1) / tile_rows;
  }
  if (rows > 0) {
    atomicAdd(&shared.first_row, rows);
    atomicAdd(&shared.first_tile, tiles);
  }
  __syncthreads();
}

/// Thread block s handles slot s. The last thread block also writes the counts, and the first one marks the
/// missing pairs.
__global__ void __launch_bounds__(kMostThreads) group_kernel(DeviceChoice choice, ExpertGroups groups) {
  __shared__ SlotCounts shared;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int n_warps = static_cast<int>(blockDim.x) / 32, own = static_cast<int>(blockIdx.x);
  const int n_pairs = choice.n_tokens * choice.n_used;
  const int range = (n_pairs + n_warps - 1) / n_warps;
  const int begin = min(n_pairs, warp * range), end = min(n_pairs, begin + range);
  count_pairs(choice, begin, end, groups.n_slots, groups.tile_rows, shared);

  const int n = shared.pairs_of[own], first_row = shared.first_row, tile_rows = groups.tile_rows;
  const int n_tiles = (n + tile_rows - 1) / tile_rows;
  for (int i = thread; i < n_tiles; i += static_cast<int>(blockDim.x)) {
    groups.tiles[shared.first_tile + i] = {own, shared.expert, first_row + i * tile_rows,
                                           min(tile_rows, n - i * tile_rows)};
  }
  if (own == groups.n_slots - 1 && thread == 0) {
    groups.counts[0] = shared.first_tile + n_tiles;
    groups.counts[1] = first_row + n;
  }
  if (n == 0 && own != 0) return;
  int row = first_row;
  for (int before = 0; before < warp; ++before) row += shared.own_of[before];
  const int steps = (range + 31) / 32;
  for (int step = 0; step < steps; ++step) {
    const int pair = begin + step * 32 + lane;
    const int slot = pair < end ? choice.slots[pair] : -1;
    const unsigned votes = __ballot_sync(~0u, slot == own ? 1 : 0);
    if (slot == own) {
      const int to = row + __popc(votes & ((1u << lane) - 1u));
      groups.row_of_pair[pair] = to;
      groups.token_of_row[to] = pair / choice.n_used;
    }
    if (own == 0 && slot < 0 && pair < end) groups.row_of_pair[pair] = -1;
    row += __popc(votes);
  }
}

/// Larger tiles read and decode weights for more tokens at once, but also multiply more places without a
/// token. With up to 3 tokens per expert, the kernels for few tokens are faster, because they are only
/// limited by the bytes of the weights.
int tile_rows_for(int n_tokens, int64_t n_pairs, int n_experts) {
  if (n_tokens <= 1) return 1;
  const int64_t mean = n_pairs / std::max(1, n_experts);
  return mean <= 3 ? 4 : mean <= 16 ? 16 : mean <= 40 ? 32 : 64;
}

}  // namespace

size_t expert_groups_bytes(int max_tokens, int n_used) {
  const size_t n = static_cast<size_t>(max_tokens) * static_cast<size_t>(n_used);
  return 2 * piece_bytes(n * sizeof(int32_t)) + kPieceBytes + piece_bytes(n * sizeof(ExpertTile));
}

ExpertGroups groups_in(void* memory, int n_tokens, int n_used, int n_experts, int n_slots) {
  const int64_t n_pairs = int64_t{n_tokens} * n_used;
  const size_t bytes = piece_bytes(static_cast<size_t>(n_pairs) * sizeof(int32_t));
  auto* at = static_cast<std::byte*>(memory);
  ExpertGroups groups;
  groups.row_of_pair = gpu_aligned<int32_t>(at);
  groups.token_of_row = gpu_aligned<int32_t>(at + bytes);
  groups.counts = gpu_aligned<int32_t>(at + 2 * bytes);
  groups.tiles = gpu_aligned<ExpertTile>(at + 2 * bytes + kPieceBytes);
  groups.n_tokens = n_tokens;
  groups.n_pairs = n_pairs;
  groups.n_slots = n_slots;
  groups.tile_rows = tile_rows_for(n_tokens, n_pairs, n_experts);
  // Each slot has at most one tile that is not full.
  const int64_t partial = std::min<int64_t>(n_pairs, n_slots);
  groups.max_tiles = partial + (n_pairs - partial) / groups.tile_rows;
  return groups;
}

namespace {

/// Runs as one thread block with at least n_experts threads.
__global__ void __launch_bounds__(kMostThreads)
    number_kernel(const int32_t* slot_of, int n_experts, int n_slots, ExpertBits skipped, int32_t* numbers) {
  __shared__ int missing_of[kMostThreads / 32];  // by warp
  const int expert = static_cast<int>(threadIdx.x), warp = expert / 32, lane = expert % 32;
  const int slot = expert < n_experts ? slot_of[expert] : 0;
  const bool skips = (skipped.words[expert / 64] >> (expert % 64) & 1) != 0;
  const unsigned missing = __ballot_sync(~0u, slot < 0 && !skips ? 1 : 0);
  if (lane == 0) missing_of[warp] = __popc(missing);
  __syncthreads();
  int number = n_slots + __popc(missing & ((1u << lane) - 1u));
  for (int before = 0; before < warp; ++before) number += missing_of[before];
  if (expert < n_experts) numbers[expert] = skips || slot >= 0 ? slot : number;
}

}  // namespace

void number_experts(const int32_t* slot_of, int n_experts, int n_slots, const ExpertBits& skipped,
                    int32_t* numbers, cudaStream_t stream) {
  if (n_experts == 0) return;
  check(gpu_launch([=] { return KernelWork{.bytes = floats(2 * n_experts), .decides = true}; },
                   gpu_kernel<number_kernel>, 1u, static_cast<unsigned>((n_experts + 31) / 32 * 32), 0,
                   stream, slot_of, n_experts, n_slots, skipped, numbers),
        "numbering a layer's experts");
}

void group_pairs_on_host(const DeviceChoice& choice, const ExpertGroups& groups) {
  // The first row of each slot, then the row of its next pair.
  std::array<int32_t, kMostExperts + 1> next = {};
  std::array<int32_t, kMostExperts> expert_of = {};
  for (int64_t pair = 0; pair < groups.n_pairs; ++pair) {
    const int32_t slot = choice.slots[pair];
    if (slot < 0) continue;
    ++next[static_cast<size_t>(slot) + 1];
    expert_of[static_cast<size_t>(slot)] = choice.experts[pair];
  }
  int32_t n_tiles = 0;
  for (int32_t slot = 0; slot < groups.n_slots; ++slot) {
    const auto i = static_cast<size_t>(slot);
    next[i + 1] += next[i];
    for (int32_t row = next[i]; row < next[i + 1]; row += groups.tile_rows)
      groups.tiles[n_tiles++] = {slot, expert_of[i], row, std::min(groups.tile_rows, next[i + 1] - row)};
  }
  groups.counts[0] = n_tiles;
  groups.counts[1] = next[static_cast<size_t>(groups.n_slots)];
  for (int64_t pair = 0; pair < groups.n_pairs; ++pair) {
    const int32_t slot = choice.slots[pair];
    const int32_t row = slot < 0 ? -1 : next[static_cast<size_t>(slot)]++;
    groups.row_of_pair[pair] = row;
    if (row >= 0) groups.token_of_row[row] = static_cast<int32_t>(pair / choice.n_used);
  }
}

void group_pairs(const DeviceChoice& choice, const ExpertGroups& groups, cudaStream_t stream) {
  if (groups.n_pairs == 0) return;
  const int64_t threads = std::clamp<int64_t>((groups.n_pairs + 31) / 32 * 32, kLeastThreads, kMostThreads);
  check(gpu_launch(
            [=] {  // as if no pair were missing
              if (device_is_simulated()) group_pairs_on_host(choice, groups);
              return KernelWork{.kind = KernelClass::kList,
                                .bytes = floats(4 * groups.n_pairs + 4 * groups.max_tiles)};
            },
            gpu_kernel<group_kernel>, static_cast<unsigned>(groups.n_slots), static_cast<unsigned>(threads),
            0, stream, choice, groups),
        "grouping experts' tokens");
}

}  // namespace hearth::cuda
