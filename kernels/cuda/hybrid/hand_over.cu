// Gives the host the inputs for its share of a layer: a kernel writes arrays to host memory, and then a
// number that tells the host that all have arrived.
//
// A kernel replaces copies, because one launch then does everything, and the host polls a word of its own
// memory, which needs neither a driver call nor an interrupt. The last thread block to finish writes the
// number. It counts the hand-overs itself, so that a recorded one can be played back. Each word is 4 bytes
// read and 4 written; only the writes cross PCIe. residency.cu hands over in the kernel that splits a set.
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
