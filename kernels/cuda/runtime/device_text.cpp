// Texts about a GPU for people; the same with CUDA and without.
#include <cmath>

#include "kernels/cuda/runtime/device.h"

namespace hearth::cuda {

std::string text_of(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::string describe(const std::variant<Device, std::string>& found) {
  if (const std::string* reason = std::get_if<std::string>(&found)) {
    return "CUDA: none (" + *reason + "), running on the CPU";
  }
  const Device& device = std::get<Device>(found);
  constexpr double kMiB = 1 << 20;
  std::string text = "CUDA: " + device.name + ", " +
                     std::to_string(std::llround(static_cast<double>(device.total_bytes) / kMiB)) +
                     " MiB, compute capability " + text_of(device.compute_capability) + ", driver for CUDA " +
                     text_of(device.driver);
  if (device.pcie) {
    text += ", PCIe " + std::to_string(device.pcie->generation) + " x" + std::to_string(device.pcie->lanes);
  }
  return text;
}

}  // namespace hearth::cuda
