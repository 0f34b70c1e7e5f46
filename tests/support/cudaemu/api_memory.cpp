// CUDA's API: memory and copies.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "tests/support/cudaemu/api_calls.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/stats.h"
#include "tests/support/cudaemu/stream.h"

namespace hearth::cudaemu {
namespace {

bool from_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}
bool to_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}

cudaError_t copy_async(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  if (n_bytes == 0) return cudaSuccess;
  const Place target = place_of(to, n_bytes), source = place_of(from, n_bytes);
  if (target == Place::kOverrun || source == Place::kOverrun) return cudaErrorInvalidValue;
  const bool into_vram = target == Place::kDevice, out_of_vram = source == Place::kDevice;
  if (kind != cudaMemcpyDefault && (into_vram != to_device(kind) || out_of_vram != from_device(kind)))
    return cudaErrorInvalidValue;
  const Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (into_vram && !out_of_vram) count(&Stats::h2d_bytes, n_bytes);
  if (out_of_vram && !into_vram) count(&Stats::d2h_bytes, n_bytes);
  const bool pageable = target == Place::kUnknown || source == Place::kUnknown;
  if (pageable) count(&Stats::pageable_async);
  if (!pageable || stream->capture != nullptr)
    return enqueue(handle, [=] { std::memcpy(to, from, n_bytes); });
  if (into_vram) {  // as the driver does: through a buffer of its own, filled before the call returns
    const auto* bytes = static_cast<const char*>(from);
    return enqueue(handle, [to, staged = std::vector<char>(bytes, bytes + n_bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  const cudaError_t error = enqueue(handle, [=] { std::memcpy(to, from, n_bytes); });
  if (error == cudaSuccess) find_stream(handle)->wait();
  return error;
}

cudaError_t set_async(void* to, int value, size_t n_bytes, cudaStream_t handle) {
  if (n_bytes > 0 && place_of(to, n_bytes) != Place::kDevice) return cudaErrorInvalidValue;
  return enqueue(handle, [=] { std::memset(to, value, n_bytes); });
}

}  // namespace
}  // namespace hearth::cudaemu

using namespace hearth::cudaemu;

extern "C" {

cudaError_t cudaMalloc(void** out, size_t n_bytes) {
  return api_call_unless_capturing("cudaMalloc", [&] { return allocate(out, n_bytes, MemoryKind::kDevice); });
}
cudaError_t cudaMallocHost(void** out, size_t n_bytes) {
  return api_call("cudaMallocHost", [&] { return allocate(out, n_bytes, MemoryKind::kPinned); });
}
cudaError_t cudaHostAlloc(void** out, size_t n_bytes, unsigned) {
  return api_call("cudaHostAlloc", [&] { return allocate(out, n_bytes, MemoryKind::kPinned); });
}

cudaError_t cudaFree(void* p) {
  return api_call_unless_capturing("cudaFree", [&] {
    wait_for_device();
    return release(p, MemoryKind::kDevice);
  });
}
cudaError_t cudaFreeHost(void* p) {
  return api_call("cudaFreeHost", [&] {
    wait_for_device();
    return release(p, MemoryKind::kPinned);
  });
}

cudaError_t cudaHostRegister(void* p, size_t n_bytes, unsigned) {
  return api_call("cudaHostRegister", [&] { return register_memory(p, n_bytes); });
}
cudaError_t cudaHostUnregister(void* p) {
  return api_call("cudaHostUnregister", [&] { return unregister_memory(p); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api_call("cudaMemGetInfo", [&] {
    *total = config().vram_bytes;
    *free = *total - vram_use().used_bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return api_call("cudaPointerGetAttributes", [&] {
    *attributes = {};
    const Place place = place_of(p, 1);
    attributes->type = place == Place::kDevice   ? cudaMemoryTypeDevice
                       : place == Place::kPinned ? cudaMemoryTypeHost
                                                 : cudaMemoryTypeUnregistered;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api_call("cudaMemcpyAsync", [&] { return copy_async(to, from, n_bytes, kind, stream); });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind) {
  return api_call("cudaMemcpy", [&] {
    const cudaError_t error = copy_async(to, from, n_bytes, kind, nullptr);
    if (error == cudaSuccess) find_stream(nullptr)->wait();
    return error;
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t n_bytes, cudaStream_t stream) {
  return api_call("cudaMemsetAsync", [&] { return set_async(to, value, n_bytes, stream); });
}
cudaError_t cudaMemset(void* to, int value, size_t n_bytes) {
  return api_call("cudaMemset", [&] { return set_async(to, value, n_bytes, nullptr); });
}
}
