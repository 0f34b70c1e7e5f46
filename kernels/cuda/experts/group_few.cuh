// Sorts the resident pairs of a few tokens in one thread block, at the end of the kernel that chose the
// experts.
#pragma once

#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// The maximum number of pairs that group_few() sorts.
inline constexpr int kFewPairs = kOneBlockTokens * kMostExpertsUsed;

/// Shared memory of group_few().
struct FewPairs {
  int32_t slots[kFewPairs];  // by pair
  int32_t pairs[kFewPairs];  // by row
  // by row: the number of rows of the tile that begins at this row; 0: no tile begins there
  int32_t tile_rows[kFewPairs];
};

/// Fills the arrays of `groups`. To find the row of a pair, a thread counts the pairs that come before it.
/// There are only a few dozen pairs. All threads of the thread block must call this, after a barrier that
/// follows the writes to choice.slots and choice.experts.
__device__ __forceinline__ void group_few(const DeviceChoice& choice, const ExpertGroups& groups,
                                          FewPairs& shared) {
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  const int n_pairs = choice.n_tokens * choice.n_used;
  for (int pair = thread; pair < n_pairs; pair += n_threads) shared.slots[pair] = choice.slots[pair];
  __syncthreads();
  for (int pair = thread; pair < n_pairs; pair += n_threads) {
    const int slot = shared.slots[pair];
    if (slot < 0) {
      groups.row_of_pair[pair] = -1;
      continue;
    }
    int lower = 0, same = 0, same_before = 0;
    for (int other = 0; other < n_pairs; ++other) {
      const int of_other = shared.slots[other];
      lower += static_cast<unsigned>(of_other) < static_cast<unsigned>(slot) ? 1 : 0;
      same += of_other == slot ? 1 : 0;
      same_before += of_other == slot && other < pair ? 1 : 0;
    }
    const int row = lower + same_before;
    groups.row_of_pair[pair] = row;
    groups.token_of_row[row] = pair / choice.n_used;
    shared.pairs[row] = pair;
    shared.tile_rows[row] =
        same_before % groups.tile_rows == 0 ? min(groups.tile_rows, same - same_before) : 0;
  }
  __syncthreads();
  int n_rows = 0, n_tiles = 0;
  for (int pair = 0; pair < n_pairs; ++pair) n_rows += shared.slots[pair] >= 0 ? 1 : 0;
  for (int row = 0; row < n_rows; ++row) {
    const int n = shared.tile_rows[row];
    if (n == 0) continue;
    if (row % n_threads == thread) {
      const int pair = shared.pairs[row];
      groups.tiles[n_tiles] = {shared.slots[pair], choice.experts[pair], row, n};
    }
    ++n_tiles;
  }
  if (thread == 0) {
    groups.counts[0] = n_tiles;
    groups.counts[1] = n_rows;
  }
}

}  // namespace hearth::cuda
