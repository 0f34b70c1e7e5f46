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
  int generation = 0;  // the fastest that the GPU supports; an idle GPU uses a slower one
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

/// Returns the GPU, or a short phrase that says why there is none: "no NVIDIA driver". Never throws. Runs a
/// trial kernel, so a returned GPU can run this program's kernels. That creates the process's CUDA context on
/// the GPU, which takes some hundred megabytes of its memory; nothing else is allocated. The first call may
/// take a second, or several where the driver has to compile the kernel from PTX.
std::variant<Device, std::string> probe();

/// Loads all kernels of this program onto the device, even those that no step has used yet. Otherwise the
/// driver loads a kernel at its first use, allocates device memory for it, and fails if there is none, so
/// call this before that memory is divided up. Takes some tenths of a second the first time. Throws
/// std::bad_alloc if the device lacks the memory, CudaError. Local memory needs no such care: a context has
/// 1,024 bytes of it per thread, more than any kernel here uses.
void load_kernels();

/// Bytes of device memory that are free now, without those of the process's CUDA context. Throws CudaError.
uint64_t free_bytes(const Device& device);

/// The probe's result for people: the GPU, or "CUDA: none (no NVIDIA driver), running on the CPU".
std::string describe(const std::variant<Device, std::string>& found);

/// Says why a driver for CUDA `driver` cannot run a program built with `runtime`, and what to install.
/// Drivers run programs built with their own major version of CUDA or an older one.
std::string driver_too_old(const Version& driver, const Version& runtime);

/// Says that the program has no code for this GPU, and what to do. architectures: those that the program was
/// built for, in CMake's notation, separated by blanks: "80 89-real 90-virtual". error: CUDA's message.
std::string no_code_for(const Device& device, const std::string& architectures, const std::string& error);

/// devices_folder: /sys/bus/pci/devices. bus_id: "0000:3B:00.0". Returns nullopt if the folder does not have
/// it.
std::optional<PcieLink> read_pcie_link(const std::string& devices_folder, const std::string& bus_id);

}  // namespace hearth::cuda
