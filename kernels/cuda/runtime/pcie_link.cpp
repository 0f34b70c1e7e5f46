// See the header.
#include "kernels/cuda/runtime/pcie_link.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

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

}  // namespace hearth::cuda
