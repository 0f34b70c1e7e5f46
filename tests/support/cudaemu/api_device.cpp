// CUDA's API: the device, and errors.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "tests/support/cudaemu/api_calls.h"
#include "tests/support/cudaemu/stats.h"

using namespace hearth::cudaemu;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = peek_last_error();
  clear_last_error();
  return error;
}
cudaError_t cudaPeekAtLastError() { return peek_last_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  thread_local char name[32];
  std::snprintf(name, sizeof name, error != cudaSuccess ? "cudaError%d" : "cudaSuccess", error);
  return name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error != cudaSuccess             ? "an error of emulated CUDA"
                                            : "no error";
}

cudaError_t cudaGetDeviceCount(int* n) {
  return api_call("cudaGetDeviceCount", [&] {
    // A driver runs programs of its own major version of CUDA and of older ones; the runtime calls none too
    // old.
    if (config().driver < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
    *n = config().n_devices;
    return *n > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  return api_call("cudaDriverGetVersion", [&] {
    *version = config().driver;
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return api_call("cudaRuntimeGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* /*bus_id*/, int /*length*/, int /*device*/) {
  return api_call("cudaDeviceGetPCIBusId", [] { return cudaErrorNotSupported; });
}
cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", [&] { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}
cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", [&] {
    *device = 0;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api_call("cudaGetDeviceProperties", [&] {
    if (device != 0) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "emulated");
    properties->totalGlobalMem = config().vram_bytes;
    properties->major = config().compute_capability / 10;
    properties->minor = config().compute_capability % 10;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->multiProcessorCount = config().n_multiprocessors;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = config().shared_optin_bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api_call("cudaDeviceGetAttribute", [&] {
    if (device != 0) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = config().compute_capability / 10;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = config().compute_capability % 10;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = config().n_multiprocessors;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(config().shared_optin_bytes);
        break;
      case cudaDevAttrWarpSize:
        *value = 32;
        break;
      default:
        return cudaErrorNotSupported;
    }
    return cudaSuccess;
  });
}
}
