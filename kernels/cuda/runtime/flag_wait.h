// Waits on the host for a number that a kernel stores in pinned memory at the end of a hand-over.
//
// A layer takes the device about 100 us, and waiting for a CUDA event would take as long. So the host polls
// the number without sleeping. Every thousand polls, it also queries the driver, so that a device failure is
// noticed soon. The query takes a microsecond and a lock.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace hearth::cuda {

/// Returns as soon as `number` is `wanted`. The caller then sees everything that the kernel stored before it
/// stored the number. `what` names the data that is handed over, for error messages: "the CPU's share of the
/// neurons". Throws CudaError if the device failed, and std::runtime_error if all work on the stream is done
/// but the number has not arrived.
void wait_for_number(const uint32_t& number, uint32_t wanted, cudaStream_t stream, const char* what);

}  // namespace hearth::cuda
