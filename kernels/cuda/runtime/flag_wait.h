// Waits on the host for a number that a kernel stores in pinned memory at the end of a hand-over.
//
// The device needs about 100 us for a layer, and waiting for a CUDA event takes as long. So the host polls
// the number without sleeping. Every thousand polls it also asks the driver, which takes a microsecond and a
// lock, so that a lost device is noticed soon.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace hearth::cuda {

/// Returns once `number` is `wanted`; everything that the kernel stored before is visible then. `what` names
/// what is handed over, for errors: "the CPU's share of the neurons". Throws CudaError if the device failed,
/// std::runtime_error if all work on the stream is done and the number has not arrived.
void wait_for_number(const uint32_t& number, uint32_t wanted, cudaStream_t stream, const char* what);

}  // namespace hearth::cuda
