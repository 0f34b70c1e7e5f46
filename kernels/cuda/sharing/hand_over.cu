// Gives the host what it needs for its share of a layer: a kernel writes arrays to host memory, and then a
// number that tells that all have arrived.
//
// A kernel is used and not copies, because one launch then does everything, and the host waits for a word of
// its own memory, which takes neither a call of the driver nor an interrupt. The last thread block to finish
// writes the number. It counts the hand-overs itself, so that a recorded one can be played back. Reads and
// writes 4 bytes a word; only the writes cross PCIe.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;
// These threads write 16 bytes each, more than PCIe has under way at a time. The other multiprocessors stay
// free for waiting work.
constexpr int64_t kMaxBlocks = 32;

__global__ void __launch_bounds__(kThreads) hand_over_kernel(HandOver what) {
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x, step = int64_t{gridDim.x} * kThreads;
  GPU_UNROLL
  for (int p = 0; p < HandOver::kMaxParts; ++p) {
    const HandOver::Part part = what.parts[p];
    const int64_t n_wide = part.n_words / 4;
    const auto* from = static_cast<const uint4*>(part.from);
    auto* to = static_cast<uint4*>(part.to);
    for (int64_t i = first; i < n_wide; i += step) to[i] = from[i];
    for (int64_t i = 4 * n_wide + first; i < part.n_words; i += step)
      static_cast<uint32_t*>(part.to)[i] = static_cast<const uint32_t*>(part.from)[i];
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || gpu_arrive(&what.state[0]) + 1 != gridDim.x) return;
  what.state[0] = 0;
  what.state[1] += 1;
  gpu_store_release_system(what.number, what.state[1]);
}

}  // namespace

void hand_over(const HandOver& what, cudaStream_t stream) {
  constexpr int64_t kWordsOfBlock = 4 * kThreads;
  int64_t most = 1;
  for (const HandOver::Part& part : what.parts) most = most < part.n_words ? part.n_words : most;
  const int64_t blocks = (most + kWordsOfBlock - 1) / kWordsOfBlock;
  check(gpu_launch(
            [=] {
              double bytes = 4;
              for (const HandOver::Part& part : what.parts) bytes += floats(part.n_words);
              return KernelWork{.bytes = bytes, .host_writes = bytes, .decides = true};
            },
            hand_over_kernel, static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads, 0,
            stream, what),
        "giving the CPU its share of the neurons");
}

}  // namespace hearth::cuda
