// The link to a GPU as described by Linux, read from folders made for the test.
#include "kernels/cuda/runtime/device.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using hearth::cuda::PcieLink;
using hearth::cuda::read_pcie_link;

namespace {

/// Reads the link from a GPU's folder with these two files.
std::optional<PcieLink> link_of(const std::string& speed, const std::string& width) {
  const hearth::test::TempFolder devices;
  const std::filesystem::path folder = devices.path() / "0000:3b:00.0";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "max_link_speed") << speed;
  std::ofstream(folder / "current_link_width") << width;
  return read_pcie_link(devices.path().string(), "0000:3B:00.0");
}

}  // namespace

TEST_CASE("a PCIe link has its generation and lanes") {
  const auto [speed, generation] = GENERATE(table<std::string, int>({{"2.5 GT/s PCIe\n", 1},
                                                                     {"5.0 GT/s PCIe\n", 2},
                                                                     {"8.0 GT/s PCIe\n", 3},
                                                                     {"16.0 GT/s PCIe\n", 4},
                                                                     {"16 GT/s\n", 4},
                                                                     {"32.0 GT/s PCIe\n", 5},
                                                                     {"64.0 GT/s PCIe\n", 6}}));
  const std::optional<PcieLink> link = link_of(speed, "8\n");
  REQUIRE(link);
  CHECK(link->generation == generation);
  CHECK(link->lanes == 8);
}

TEST_CASE("a PCIe link that the system does not report is absent") {
  CHECK_FALSE(link_of("Unknown\n", "16\n"));
  CHECK_FALSE(link_of("16.0 GT/s PCIe\n", "0\n"));
  CHECK_FALSE(link_of("16.0 GT/s PCIe\n", ""));
  CHECK_FALSE(link_of("7.7 GT/s PCIe\n", "16\n"));
  CHECK_FALSE(read_pcie_link("/nonexistent", "0000:3B:00.0"));
}
