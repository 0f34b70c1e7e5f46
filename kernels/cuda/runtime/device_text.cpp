// The parts of device.h that do not need CUDA: the PCIe link and messages. Builds with and without CUDA use
// this.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "kernels/cuda/runtime/device.h"

namespace hearth::cuda {

std::optional<PcieLink> read_pcie_link(const std::string& devices_folder, const std::string& bus_id) {
  constexpr std::array<double, 6> kSpeeds = {2.5, 5, 8, 16, 32, 64};  // GT/s per lane for generations 1 to 6
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

namespace {

/// Joins items to a text such as "8.0, 8.9 and 9.0". Returns "none" if there are no items.
std::string list_text(const std::vector<std::string>& items) {
  if (items.empty()) return "none";
  std::string text = items.front();
  for (size_t i = 1; i < items.size(); ++i) text += (i + 1 == items.size() ? " and " : ", ") + items[i];
  return text;
}

/// Converts "89" to "8.9". Does not change names without a number, such as "native".
std::string capability_text(std::string architecture) {
  const size_t digits = architecture.find_first_not_of("0123456789");
  const size_t n = digits == std::string::npos ? architecture.size() : digits;
  if (n >= 2) architecture.insert(n - 1, ".");
  return architecture;
}

}  // namespace

std::string driver_too_old(const Version& driver, const Version& runtime) {
  // The first driver of each major version, from NVIDIA's CUDA compatibility guide.
  constexpr int kDriverOf12 = 525, kDriverOf13 = 580;
  std::string text = "the NVIDIA driver is too old: it runs CUDA " + text_of(driver) +
                     ", this program needs " + std::to_string(runtime.major) + ".0 or newer";
  if (runtime.major == 12) return text + "; install driver " + std::to_string(kDriverOf12) + " or newer";
  if (runtime.major != 13) return text;
  text += "; install driver " + std::to_string(kDriverOf13) + " or newer, or ";
  return text + (driver.major == 12 ? "build with CUDA 12, which this driver runs"
                                    : std::to_string(kDriverOf12) + " and build with CUDA 12");
}

std::string no_code_for(const Device& device, const std::string& architectures, const std::string& error) {
  std::vector<std::string> images, ptx;
  std::istringstream words(architectures);
  for (std::string word; words >> word;) {
    const size_t dash = word.find('-');
    const std::string number = capability_text(word.substr(0, dash));
    const std::string kind = dash == std::string::npos ? "" : word.substr(dash + 1);
    if (kind != "virtual") images.push_back(number);
    if (kind != "real") ptx.push_back(number);
  }
  const Version& needed = device.compute_capability;
  return device.name + " has compute capability " + text_of(needed) +
         ", and this program has no code for it, only code for " + list_text(images) +
         (ptx.empty() ? ", and no PTX (" : " and PTX for " + list_text(ptx) + " (") + error +
         "); build it with -DHEARTH_CUDA_ARCHITECTURES=" + std::to_string(needed.major) +
         std::to_string(needed.minor) +
         (ptx.empty() ? "" : ", or install a newer driver, which may compile the PTX");
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
