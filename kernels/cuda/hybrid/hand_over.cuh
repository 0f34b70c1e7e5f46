// Device code that hands arrays over to the host: the thread blocks copy the parts, and the last thread block
// to finish signals the host.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

inline constexpr int kHandOverThreads = 256;

/// Copies this thread block's share of the parts. block: the index of the thread block among the n_blocks
/// that copy.
__device__ __forceinline__ void copy_parts(const HandOver& what, unsigned block, unsigned n_blocks) {
  const int64_t first = int64_t{block} * kHandOverThreads + threadIdx.x,
                step = int64_t{n_blocks} * kHandOverThreads;
  GPU_UNROLL
  for (int p = 0; p < HandOver::kMaxParts; ++p) {
    const HandOver::Part part = what.parts[p];
    const int64_t n_wide = part.n_words / 4;
    const auto* from = gpu_aligned<uint4>(part.from);
    auto* to = gpu_aligned<uint4>(part.to);
    for (int64_t i = first; i < n_wide; i += step) to[i] = from[i];
    for (int64_t i = 4 * n_wide + first; i < part.n_words; i += step)
      gpu_aligned<uint32_t>(part.to)[i] = gpu_aligned<uint32_t>(part.from)[i];
  }
}

/// Every thread block must call this at its end. The last thread block of the grid to finish then stores the
/// number, so the host sees everything that the grid wrote before.
__device__ __forceinline__ void tell_host(const HandOver& what) {
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || gpu_arrive(&what.state[0]) + 1 != gridDim.x) return;
  what.state[0] = 0;
  what.state[1] += 1;
  gpu_store_release_system(what.number, what.state[1]);
}

/// The number of thread blocks that copy the parts. A thread writes 16 bytes at a time, so 32 thread blocks
/// write more than PCIe can have in flight. The other multiprocessors stay free for other kernels.
inline unsigned hand_over_blocks(const HandOver& what) {
  constexpr int64_t kWordsOfBlock = 4 * kHandOverThreads, kMaxBlocks = 32;
  int64_t most = 1;
  for (const HandOver::Part& part : what.parts) most = most < part.n_words ? part.n_words : most;
  const int64_t blocks = (most + kWordsOfBlock - 1) / kWordsOfBlock;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

/// The bytes of the parts and of the number.
inline double handed_over_bytes(const HandOver& what) {
  double bytes = 4;
  for (const HandOver::Part& part : what.parts) bytes += floats(part.n_words);
  return bytes;
}

}  // namespace hearth::cuda
