// Finds the GPU. The header is plain C++, so that the engine and the programs can include it without CUDA's
// headers.
//
// kernels/cuda/runtime/device.cpp queries the CUDA runtime. A build without CUDA links no_cuda.cpp instead,
// which finds no GPU.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace hearth::cuda {

/// A version such as 13.0.
struct Version {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};

/// The link between a GPU and the host, as reported by Linux. The CUDA runtime does not report it.
struct PcieLink {
  int generation = 0;  // the highest PCIe generation that the GPU supports; an idle GPU uses a lower one
  int lanes = 0;       // in use
};

/// The GPU that Hearth uses: the first in CUDA's list of GPUs, whose order the environment variable
/// CUDA_VISIBLE_DEVICES can change. Hearth's kernels can run on it.
struct Device {
  std::string name;
  std::string uuid = {};       // identifies this GPU: "GPU-" and 32 hexadecimal digits
  std::string bus_id = {};     // "0000:3B:00.0"; empty if the driver does not report it
  Version compute_capability;  // at least 7.5
  uint64_t total_bytes = 0;
  Version driver;                // the newest CUDA version that the driver supports
  Version runtime;               // the CUDA version that this program was built with
  std::optional<PcieLink> pcie;  // nullopt if the system does not report it
};

/// The version as text: "13.0".
std::string text_of(const Version& version);

/// Returns the GPU, or a short phrase with the reason why there is none, such as "no NVIDIA driver". Never
/// throws. Runs a trial kernel, so a returned GPU can run this program's kernels. This creates the CUDA
/// context of the process, which takes some hundred megabytes of GPU memory; nothing else stays allocated.
/// The first call may take a second, or several seconds if the driver has to compile the kernel from PTX.
std::variant<Device, std::string> probe();

/// Loads all kernels of this program onto the device. Call it before the plan divides the device memory up.
/// By default the driver loads a kernel when the kernel is first used, allocates device memory for it, and
/// fails if none is free. The first call takes some tenths of a second. Throws std::bad_alloc if the device
/// has too little memory, and CudaError for other failures. No local memory needs to be allocated in advance,
/// because a CUDA context reserves 1,024 bytes per thread, which is more than any kernel here uses.
void load_kernels();

/// Returns the number of free bytes of device memory. The process's CUDA context is not counted as free.
/// Throws CudaError.
uint64_t free_bytes(const Device& device);

/// Describes the result of probe() for people: the GPU, or "CUDA: none (no NVIDIA driver), running on the
/// CPU".
std::string describe(const std::variant<Device, std::string>& found);

/// Returns a message: a driver for CUDA version `driver` cannot run a program built with CUDA version
/// `runtime`. The message names the reason and the remedy. A driver runs programs that were built with its
/// own major version of CUDA or an older one.
std::string driver_too_old(const Version& driver, const Version& runtime);

/// Returns a message: the program has no code for this GPU, and what to do. architectures: the architectures
/// for which the program was built, in CMake's notation, separated by blanks: "80 89-real 90-virtual". error:
/// CUDA's message.
std::string no_code_for(const Device& device, const std::string& architectures, const std::string& error);

/// Reads the link of the GPU with this bus_id, such as "0000:3B:00.0". devices_folder: /sys/bus/pci/devices.
/// Returns nullopt if the folder has no link data for the GPU.
std::optional<PcieLink> read_pcie_link(const std::string& devices_folder, const std::string& bus_id);

}  // namespace hearth::cuda
