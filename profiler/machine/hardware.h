// What this machine is, without measuring anything: by which it is known again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {

struct Hardware {
  std::string cpu;              // the processor's name
  std::vector<int> processors;  // that this process may use
  int n_cores = 0;              // physical ones among them, and no more than its cgroup's time is worth
  std::vector<std::vector<int>> numa_nodes;  // one processor of each core, by node
  uint64_t ram_bytes = 0;                    // of it what this process may use
  Isa isa = Isa::kScalar;                    // the best
  std::optional<cuda::Device> gpu;
  std::string no_gpu;  // why there is none: "no NVIDIA driver"
};

/// Of the machine, container and affinity mask that this process runs in. May take a second, for it starts
/// the GPU's driver.
Hardware hardware_here();

/// Lines "what: value" of all that measured figures depend on. Another text: another machine, as far as its
/// speed is concerned.
std::string identity_of(const Hardware& hardware);

}  // namespace hearth
