// Waiting on the host for a number that a kernel stores into pinned memory: what a hand-over ends with.
//
// A layer's work takes the device some 100 us and an event's wait costs as much, so the number is looked at
// without pause; the driver, whose answer takes a microsecond and a lock, is asked rarely, and a lost device
// is still noticed at once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace hearth::cuda {

/// Returns once `number` is `wanted`, with what the kernel stored before it visible. `what` comes with it,
/// for errors: "the CPU's share of the neurons". Throws CudaError where the device failed, std::runtime_error
/// where all work on the stream is done and the number has not come.
void wait_for_number(const uint32_t& number, uint32_t wanted, cudaStream_t stream, const char* what);

}  // namespace hearth::cuda
