// A kernel that copies bundles (the rows of one neuron each) from mapped host memory. One launch copies
// scattered host rows to scattered device rows.
//
// The rows are distributed over the thread blocks in turn. The threads of a thread block read neighboring
// words, so that the bus transfers the reads of a warp as full-size requests (Min et al., EMOGI, VLDB 2020:
// scattered reads of host memory saturate the bus if each warp reads whole, aligned lines).
#include "kernels/cuda/hybrid/gather_bundles.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

// The maximum number of thread blocks. 32 thread blocks of 256 threads with 16 bytes each have 128 KB in
// flight; 55 GB/s (PCIe 5, 16 lanes) at a latency of 2 us needs 110 KB. More thread blocks would only take
// multiprocessors from the kernels that run at the same time.
constexpr unsigned kMostBlocks = 32;

template <class Word>
__device__ void copy_row(const std::byte* from, std::byte* to, size_t bytes) {
  const auto* source = gpu_aligned<Word>(from);
  auto* target = gpu_aligned<Word>(to);
  const auto n = static_cast<unsigned>(bytes / sizeof(Word));
  for (unsigned i = threadIdx.x; i < n; i += kThreads) target[i] = source[i];
}

__global__ void __launch_bounds__(kThreads) gather_bundles_kernel(BundleGather gather) {
  const int n_rows = gather.n_moves * gather.n_parts;
  for (int row = static_cast<int>(blockIdx.x); row < n_rows; row += static_cast<int>(gridDim.x)) {
    const RowChange move = gather.moves[row / gather.n_parts];
    const BundlePart part = gather.parts[row % gather.n_parts];
    const std::byte* from = part.from + static_cast<size_t>(move.neuron) * part.from_stride;
    std::byte* to = part.to + static_cast<size_t>(move.device_row) * part.to_stride;
    switch (part.word) {
      case 16:
        copy_row<uint4>(from, to, part.bytes);
        break;
      case 8:
        copy_row<uint2>(from, to, part.bytes);
        break;
      case 4:
        copy_row<uint32_t>(from, to, part.bytes);
        break;
      case 2:
        copy_row<uint16_t>(from, to, part.bytes);
        break;
      default:
        copy_row<uint8_t>(from, to, part.bytes);
    }
  }
}

}  // namespace

void gather_bundles(const BundleGather& gather, cudaStream_t stream) {
  const auto n_rows = static_cast<unsigned>(gather.n_moves * gather.n_parts);
  if (n_rows == 0) return;
  check(gpu_launch(
            [=] {
              double bytes = 0;
              for (int p = 0; p < gather.n_parts; ++p) bytes += static_cast<double>(gather.parts[p].bytes);
              bytes *= gather.n_moves;
              return KernelWork{
                  .kind = KernelClass::kGather, .bytes = bytes, .host_reads = bytes + 8.0 * gather.n_moves};
            },
            gpu_kernel<gather_bundles_kernel>, n_rows < kMostBlocks ? n_rows : kMostBlocks, kThreads, 0,
            stream, gather),
        "gathering neurons for the cache");
}

}  // namespace hearth::cuda
