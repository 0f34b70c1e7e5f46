// CUDA's API: the device, and the thread's last error.
#include <cuda_runtime.h>

#include <cstdio>

#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/errors.h"

using namespace hearth::cudaemu;

namespace {

constexpr int kSharedBytes = 48 << 10;  // per block; more needs cudaFuncSetAttribute

constexpr int kClockKhz = 1'000'000;  // only reported

/// Runs `body` if `device` is the only device and it exists; otherwise returns the error.
template <class Body>
cudaError_t about_device(const char* api, int device, Body&& body) {
  return api_query(api, [&] {
    if (const cudaError_t error = machine_error()) return error;
    if (device != 0) return cudaErrorInvalidDevice;
    return body();
  });
}

void describe(cudaDeviceProp& device) {
  device = {};
  std::snprintf(device.name, sizeof device.name, "emulated");
  device.totalGlobalMem = config().vram_bytes;
  device.major = config().compute_capability / 10;
  device.minor = config().compute_capability % 10;
  device.multiProcessorCount = config().n_multiprocessors;
  device.warpSize = 32;
  device.maxThreadsPerBlock = device.maxThreadsDim[0] = device.maxThreadsDim[1] = 1024;
  device.maxThreadsDim[2] = 64;
  device.maxGridSize[0] = 0x7fffffff;
  device.maxGridSize[1] = device.maxGridSize[2] = 65535;
  device.maxThreadsPerMultiProcessor = 2048;
  device.regsPerBlock = 64 << 10;
  device.sharedMemPerBlock = kSharedBytes;
  device.sharedMemPerBlockOptin = config().shared_optin_bytes;
  device.sharedMemPerMultiprocessor = config().shared_optin_bytes + (1 << 10);
  device.totalConstMem = 64 << 10;
  device.l2CacheSize = 4 << 20;
  device.asyncEngineCount = 2;
  device.concurrentKernels = device.unifiedAddressing = device.canMapHostMemory = 1;
}

cudaError_t attribute_of(cudaDeviceAttr attribute, int& value) {
  cudaDeviceProp device;
  describe(device);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      value = device.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      value = device.minor;
      break;
    case cudaDevAttrMultiProcessorCount:
      value = device.multiProcessorCount;
      break;
    case cudaDevAttrClockRate:
      value = kClockKhz;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      value = device.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      value = device.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      value = kSharedBytes;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      value = static_cast<int>(device.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrWarpSize:
      value = device.warpSize;
      break;
    case cudaDevAttrL2CacheSize:
      value = device.l2CacheSize;
      break;
    case cudaDevAttrAsyncEngineCount:
      value = device.asyncEngineCount;
      break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
      value = 1;
      break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrPageableMemoryAccess:
      value = 0;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = peek_last_error();
  clear_last_error();
  return error;
}
cudaError_t cudaPeekAtLastError() { return peek_last_error(); }

cudaError_t cudaGetDeviceCount(int* n) {
  return api_query("cudaGetDeviceCount", [&] {
    *n = config().n_devices;
    return machine_error();
  });
}
cudaError_t cudaSetDevice(int device) {
  return about_device("cudaSetDevice", device, [] { return cudaSuccess; });
}
cudaError_t cudaGetDevice(int* device) {
  return about_device("cudaGetDevice", 0, [&] {
    *device = 0;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return about_device("cudaGetDeviceProperties", device, [&] {
    describe(*properties);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return about_device("cudaDeviceGetAttribute", device, [&] { return attribute_of(attribute, *value); });
}
/// The emulated device is on no bus.
cudaError_t cudaDeviceGetPCIBusId(char* /*bus_id*/, int /*length*/, int device) {
  return about_device("cudaDeviceGetPCIBusId", device, [] { return cudaErrorNotSupported; });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return api_query("cudaRuntimeGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  return api_query("cudaDriverGetVersion", [&] {
    *version = config().driver;
    return cudaSuccess;
  });
}
}
