// Describes this machine without measuring anything. The description also serves to identify the machine.
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
  int n_cores = 0;              // physical cores of `processors`, limited by the cgroup's share of CPU time
  std::vector<std::vector<int>> numa_nodes;  // one processor of each core, by node
  uint64_t ram_bytes = 0;                    // the part of the RAM that this process may use
  Isa isa = Isa::kScalar;                    // the best instruction set that the processor has
  std::optional<cuda::Device> gpu;
  std::string no_gpu;  // the reason if there is no GPU, for example "no NVIDIA driver"
};

/// Returns the hardware that this process may use within its container and affinity mask. May take a second,
/// because the call starts the GPU's driver.
Hardware hardware_here();

/// Returns lines of "what: value" for everything that measured figures depend on. Two machines with different
/// texts may have different speeds.
std::string identity_of(const Hardware& hardware);

}  // namespace hearth
