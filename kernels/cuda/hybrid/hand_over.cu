// Hands the inputs of the CPU's share of a layer over to the host: a kernel writes arrays to host memory, and
// then a number that signals that all arrays have arrived.
//
// A kernel is better than copies, because it needs only one launch, and the host can poll a word of its own
// memory without a driver call or an interrupt. The last thread block to finish writes the number. The number
// counts hand-overs, and the device keeps the count, so that a recorded hand-over can be played back. Each
// word is 4 bytes read and 4 bytes written; only the writes cross PCIe. In small steps, the kernel of
// residency.cu that splits a set also does the hand-over.
#include "kernels/cuda/hybrid/hand_over.cuh"

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

__global__ void __launch_bounds__(kHandOverThreads) hand_over_kernel(HandOver what) {
  copy_parts(what, blockIdx.x, gridDim.x);
  tell_host(what);
}

}  // namespace

void hand_over(const HandOver& what, cudaStream_t stream) {
  check(gpu_launch(
            [=] {
              const double bytes = handed_over_bytes(what);
              return KernelWork{
                  .kind = KernelClass::kHandOver, .bytes = bytes, .host_writes = bytes, .decides = true};
            },
            gpu_kernel<hand_over_kernel>, hand_over_blocks(what), kHandOverThreads, 0, stream, what),
        "handing over to the CPU");
}

}  // namespace hearth::cuda
