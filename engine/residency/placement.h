// What a device gets of one layer. Decided by a Plan (engine/residency/plan.h), carried out by loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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

/// What was decided outside of the engine (LoadOptions::choose_placement).
struct Placement {
  Placement(std::vector<LayerPlacement> layers_, size_t stream_bytes_ = 0)  // NOLINT: layers are one
      : layers(std::move(layers_)), stream_bytes(stream_bytes_) {}
  std::vector<LayerPlacement> layers;  // [n_layers]
  size_t stream_bytes;                 // of each of two buffers for cold neurons of prompts, see StepBounds
};

}  // namespace hearth
