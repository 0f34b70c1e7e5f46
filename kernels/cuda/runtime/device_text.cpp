// What is said about a GPU without asking CUDA: its link, and texts for people. The same with CUDA and without.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>

#include "kernels/cuda/runtime/device.h"

namespace hearth::cuda {

std::optional<PcieLink> read_pcie_link(const std::string& devices_folder, const std::string& bus_id) {
  constexpr std::array<double, 6> kSpeeds = {2.5, 5, 8, 16, 32, 64};  // GT/s a lane, of generations 1 to 6
  std::string folder = devices_folder + "/" + bus_id;
  std::transform(folder.end() - static_cast<std::ptrdiff_t>(bus_id.size()), folder.end(),
                 folder.end() - static_cast<std::ptrdiff_t>(bus_id.size()),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  double speed = 0;
  int lanes = 0;
  std::ifstream(folder + "/max_link_speed") >> speed;  // "16.0 GT/s PCIe"
  std::ifstream(folder + "/current_link_width") >> lanes;
  const auto found = std::find(kSpeeds.begin(), kSpeeds.end(), speed);
  if (found == kSpeeds.end() || lanes <= 0) return std::nullopt;
  return PcieLink{static_cast<int>(found - kSpeeds.begin()) + 1, lanes};
}

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
