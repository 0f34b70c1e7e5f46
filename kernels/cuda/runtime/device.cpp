// Implements the functions of device.h that call the CUDA runtime.
#include "kernels/cuda/runtime/device.h"

#include <cuda_runtime.h>

#include <array>
#include <new>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/known_kernels.h"
#include "kernels/cuda/runtime/trial.h"

namespace hearth::cuda {
namespace {

// Turing, the oldest GPUs that multiply int8 on tensor cores and that CUDA 13 drivers support.
constexpr Version kOldest = {7, 5};

Version version_of(int number) { return {number / 1000, number % 1000 / 10}; }

/// Returns the reason why cudaGetDeviceCount() failed.
std::string reason_of(cudaError_t code, const Device& found) {
  if (found.driver == Version{}) return "no NVIDIA driver";
  if (code == cudaErrorInsufficientDriver) {
    return driver_too_old(found.driver, found.runtime);
  }
  if (code == cudaErrorNoDevice) return "no NVIDIA GPU";
  return std::string("the NVIDIA driver does not answer: ") + cudaGetErrorString(code);
}

/// Whether the error means that this program has no code that the device and its driver can run.
bool means_no_code(cudaError_t code) {
  switch (code) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
      return true;
    default:
      return false;
  }
}

/// Runs the trial kernel. Returns an empty string if the program's kernels can run on the device, else the
/// reason why they cannot. Throws CudaError, std::bad_alloc.
std::string try_kernel(const Device& found) {
  const Stream stream;
  const PinnedArray<TrialNumbers> numbers(1);
  *numbers.data() = {};
  cudaError_t code = launch_trial(numbers.data(), stream);
  if (code == cudaSuccess) code = cudaStreamSynchronize(stream);
  if (means_no_code(code)) {
    cudaGetLastError();  // clear the error, because the return value reports it
    return no_code_for(found, HEARTH_CUDA_IMAGES, cudaGetErrorString(code));
  }
  check(code, "running a trial kernel");
  if (*numbers.data() == expected_of_trial()) return {};
  return found.name + " computes wrong numbers in a trial kernel: the driver or the GPU is faulty";
}

/// The GPU's PCI address, or an empty string if the driver does not report it.
std::string bus_id_of(int device) {
  std::array<char, 32> bus_id = {};
  const cudaError_t code = cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device);
  if (code == cudaSuccess) return bus_id.data();
  cudaGetLastError();  // clear the error, because a missing address does not matter
  return "";
}

std::string text_of(const cudaUUID_t& uuid) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (const char byte : uuid.bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

}  // namespace

std::variant<Device, std::string> probe() try {
  Device found;
  int driver = 0, runtime = 0, n_devices = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  found.driver = version_of(driver);
  found.runtime = version_of(runtime);
  const cudaError_t counted = cudaGetDeviceCount(&n_devices);
  if (counted != cudaSuccess) {
    cudaGetLastError();  // clear the error, because the return value reports it
    return reason_of(counted, found);
  }
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, 0), "reading the GPU's properties");
  found.name = properties.name;
  found.compute_capability = {properties.major, properties.minor};
  found.total_bytes = properties.totalGlobalMem;
  if (found.compute_capability < kOldest) {
    return found.name + " has compute capability " + text_of(found.compute_capability) + ", below " +
           text_of(kOldest);
  }
  found.uuid = text_of(properties.uuid);
  found.bus_id = bus_id_of(0);
  if (!found.bus_id.empty()) found.pcie = read_pcie_link("/sys/bus/pci/devices", found.bus_id);
  if (std::string reason = try_kernel(found); !reason.empty()) return reason;
  return found;
} catch (const std::bad_alloc&) {
  return "there is no memory for a trial kernel";
} catch (const std::exception& error) {
  cudaGetLastError();
  return error.what();
}

void load_kernels() {
  for (const KnownKernel* kernel = KnownKernel::first(); kernel != nullptr; kernel = kernel->next()) {
    cudaFuncAttributes attributes;
    check_allocation(cudaFuncGetAttributes(&attributes, kernel->address()), "loading the kernels");
  }
}

uint64_t free_bytes(const Device& device) {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), ("asking " + device.name + " for its free memory").c_str());
  return free;
}

}  // namespace hearth::cuda
