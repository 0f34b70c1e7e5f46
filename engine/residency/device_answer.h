// Whether a GPU computes beside the CPU, and with how much of its memory: asked once, before a model is
// loaded or placed again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model_runtime.h"

namespace hearth {

/// Whether a device computes, and how much of its memory may be taken.
struct DeviceAnswer {
  bool usable = false;
  std::string name;
  uint64_t free_bytes = 0;
  uint64_t budget_bytes = 0;
  std::vector<std::string> notes;
};

/// Throws std::invalid_argument (one sentence) where a GPU was insisted on that cannot be used.
DeviceAnswer choose_device(const LoadOptions& options);

}  // namespace hearth
