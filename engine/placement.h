// What a device gets of one layer. Decided by a Plan (engine/plan.h), carried out by loading.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth {

/// What a device too small for the model gets of it.
enum class DeviceSplit : uint8_t {
  kNeurons,  // of every layer the neurons that fire most
  kLayers,   // whole layers, the last ones: what offloading by layers does, to compare with
};

struct LayerPlacement {
  bool on_device = true;   // its attention with keys and values, its norms and its predictor; false: nothing
  bool all_gates = false;  // the gate rows of all neurons
  std::vector<int32_t> hot;  // neurons: numbers in the layout's order, ascending, none twice
  int64_t n_cache = 0;       // places for neurons that come and go
};

}  // namespace hearth
