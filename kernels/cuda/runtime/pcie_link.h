// The link between a GPU and the host, as Linux reports it. CUDA's runtime does not report it.
#pragma once

#include <optional>
#include <string>

namespace hearth::cuda {

struct PcieLink {
  int generation = 0;  // the GPU's fastest; at rest it runs a slower one
  int lanes = 0;       // in use
};

/// devices_folder: /sys/bus/pci/devices. bus_id: "0000:3B:00.0". Returns nullopt if the folder does not have
/// it.
std::optional<PcieLink> read_pcie_link(const std::string& devices_folder, const std::string& bus_id);

}  // namespace hearth::cuda
