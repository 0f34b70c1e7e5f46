// CUDA's API: memory and copies.
#include <cuda_runtime.h>

#include <algorithm>

#include "tests/support/cudaemu/api_calls.h"
#include "tests/support/cudaemu/copy.h"
#include "tests/support/cudaemu/graph.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/stream.h"

using namespace hearth::cudaemu;

namespace {

Copy one_row(void* to, const void* from, size_t n_bytes) {
  return {static_cast<char*>(to), n_bytes, static_cast<const char*>(from), n_bytes, n_bytes, 1};
}

/// Waits for an operation that was put into the default stream, unless that failed.
cudaError_t then_wait(cudaError_t error) {
  if (error == cudaSuccess) find_stream(nullptr)->wait();
  return error;
}

/// The device can access all host memory known to the runtime, at the host's addresses.
cudaError_t device_pointer(void** out, void* p) {
  *out = nullptr;
  if (place_of(p, 1) != Place::kPinned) return cudaErrorInvalidValue;
  *out = p;
  return cudaSuccess;
}

constexpr unsigned kHostAllocFlags = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kHostRegisterFlags =
    cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, size_t n_bytes) {
  return api_call_unless_capturing("cudaMalloc", [&] { return allocate(out, n_bytes, MemoryKind::kDevice); });
}
cudaError_t cudaMallocHost(void** out, size_t n_bytes) {
  return api_call_unless_capturing("cudaMallocHost",
                                   [&] { return allocate(out, n_bytes, MemoryKind::kPinned); });
}
cudaError_t cudaHostAlloc(void** out, size_t n_bytes, unsigned flags) {
  return api_call_unless_capturing("cudaHostAlloc", [&] {
    if ((flags & ~kHostAllocFlags) != 0) return cudaErrorInvalidValue;
    return allocate(out, n_bytes, MemoryKind::kPinned);
  });
}
cudaError_t cudaFree(void* p) {
  return api_release("cudaFree", [&] {
    if (const cudaError_t error = forbid_while_capturing()) return error;
    wait_for_device();
    return release(p, MemoryKind::kDevice);
  });
}
cudaError_t cudaFreeHost(void* p) {
  return api_release("cudaFreeHost", [&] {
    if (const cudaError_t error = forbid_while_capturing()) return error;
    wait_for_device();
    return release(p, MemoryKind::kPinned);
  });
}
cudaError_t cudaHostRegister(void* p, size_t n_bytes, unsigned flags) {
  return api_call("cudaHostRegister", [&] {
    if ((flags & ~kHostRegisterFlags) != 0) return cudaErrorInvalidValue;
    return register_memory(p, n_bytes);
  });
}
cudaError_t cudaHostUnregister(void* p) {
  return api_release("cudaHostUnregister", [&] {
    wait_for_device();
    return unregister_memory(p);
  });
}
cudaError_t cudaHostGetDevicePointer(void** out, void* p, unsigned) {
  return api_call("cudaHostGetDevicePointer", [&] { return device_pointer(out, p); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api_call("cudaMemGetInfo", [&] {
    *total = config().vram_bytes;
    *free =
        *total - std::min(*total, config().vram_taken_bytes + memory_use().vram_bytes + graph_vram_bytes());
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return api_call("cudaPointerGetAttributes", [&] {
    *attributes = {};
    const Place place = place_of(p, 1);
    void* address = const_cast<void*>(p);
    attributes->type = place == Place::kDevice   ? cudaMemoryTypeDevice
                       : place == Place::kPinned ? cudaMemoryTypeHost
                                                 : cudaMemoryTypeUnregistered;
    attributes->devicePointer = place == Place::kUnknown ? nullptr : address;
    attributes->hostPointer = place == Place::kDevice ? nullptr : address;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api_call("cudaMemcpyAsync", [&] { return copy_async(one_row(to, from, n_bytes), kind, stream); });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return api_call("cudaMemcpy2DAsync", [&] {
    const Copy copy{
        static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height};
    return copy_async(copy, kind, stream);
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind) {
  return api_wait("cudaMemcpy",
                  [&] { return then_wait(copy_async(one_row(to, from, n_bytes), kind, nullptr)); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t n_bytes, cudaStream_t stream) {
  return api_call("cudaMemsetAsync", [&] { return fill_async(to, value, n_bytes, stream); });
}
cudaError_t cudaMemset(void* to, int value, size_t n_bytes) {
  return api_call("cudaMemset", [&] { return fill_async(to, value, n_bytes, nullptr); });
}
}
