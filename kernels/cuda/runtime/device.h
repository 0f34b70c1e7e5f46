// Finds the GPU. Plain C++, so that the engine and the programs can include it without CUDA's headers.
//
// kernels/cuda/runtime/device.cpp asks the CUDA runtime; a build without CUDA links no_cuda.cpp, which finds
// no GPU.
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

/// The link between a GPU and the host, as Linux reports it. CUDA's runtime does not report it.
struct PcieLink {
  int generation = 0;  // the GPU's fastest; at rest it runs a slower one
  int lanes = 0;       // in use
};

/// The first GPU that CUDA shows (CUDA_VISIBLE_DEVICES chooses), one that Hearth's kernels can run on.
struct Device {
  std::string name;
  std::string uuid = {};       // identifies this GPU: "GPU-" and 32 hexadecimal digits
  std::string bus_id = {};     // "0000:3B:00.0"; empty if the driver does not report it
  Version compute_capability;  // at least 7.5
  uint64_t total_bytes = 0;
  Version driver;                // the newest CUDA that the driver runs
  Version runtime;               // the CUDA this program was built with
  std::optional<PcieLink> pcie;  // nullopt if the system does not report it
};

/// The version as text: "13.0".
std::string text_of(const Version& version);

/// The GPU, or why there is none, as a short phrase: "no NVIDIA driver". Never throws. Runs a trial kernel, so a GPU that
/// is returned runs this program's kernels. That makes the process's CUDA context on it, which takes some hundred megabytes
/// of its memory; nothing else of it is allocated. The first call may take a second, or several where the driver has to
/// compile the kernel from PTX.
std::variant<Device, std::string> probe();

/// Loads all kernels of this program onto the device, those that no step has used yet included. A driver otherwise loads a kernel
/// when it is first used, takes device memory for it then, and fails if there is none: call it before that memory is shared
/// out. Takes some tenths of a second the first time. Throws std::bad_alloc if the device lacks the memory, CudaError.
/// Local memory needs no such care: a context has 1,024 bytes of it for every thread, more than any kernel here takes.
void load_kernels();

/// Bytes of the device's memory that are free now; those of the process's CUDA context are not among them. Throws CudaError.
uint64_t free_bytes(const Device& device);

/// The probe's result for people: the GPU, or "CUDA: none (no NVIDIA driver), running on the CPU".
std::string describe(const std::variant<Device, std::string>& found);

/// Why a driver that runs CUDA `driver` does not serve a program built with `runtime`, and what to install. Drivers run
/// programs of their own major version of CUDA and of older ones.
std::string driver_too_old(const Version& driver, const Version& runtime);

/// That the program has no code for this GPU, and what to do. architectures: what it was built for, in CMake's notation
/// with blanks between: "80 89-real 90-virtual". error: what CUDA says.
std::string no_code_for(const Device& device, const std::string& architectures, const std::string& error);

/// devices_folder: /sys/bus/pci/devices. bus_id: "0000:3B:00.0". Returns nullopt if the folder does not have
/// it.
std::optional<PcieLink> read_pcie_link(const std::string& devices_folder, const std::string& bus_id);

}  // namespace hearth::cuda
