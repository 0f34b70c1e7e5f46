// Describes this machine without measuring anything. The description identifies the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {

struct Hardware {
  std::string cpu;              // the processor's name
  std::vector<int> processors;  // the processors that this process may use
  int n_cores = 0;              // their physical cores, at most as many as the cgroup's CPU time allows
  std::vector<std::vector<int>> numa_nodes;  // one processor of each core, by node
  uint64_t ram_bytes = 0;                    // the part of the RAM that this process may use
  Isa isa = Isa::kScalar;                    // the best instruction set that the processor has
  std::optional<cuda::Device> gpu;
  std::string no_gpu;  // the reason if there is no GPU: "no NVIDIA driver"
};

/// The hardware that this process may use in its container and affinity mask. May take a second, because it
/// starts the GPU's driver.
Hardware hardware_here();

/// Lines of "what: value", for everything that measured figures depend on. A different text means a machine
/// of a different speed.
std::string identity_of(const Hardware& hardware);

}  // namespace hearth
