// The share of each layer that a device gets. place_model() decides it (engine/placement/place_model.h), a
// Plan counts its bytes (engine/residency/plan.h), and loading carries it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hearth {

/// How to split a model between the CPU and a device that is too small for all of it.
enum class DeviceSplit : uint8_t {
  kAuto,     // whichever decodes faster: by neurons if many are skipped, else by layers
  kNeurons,  // in every layer, the most frequently active neurons
  kLayers,   // whole layers, the last ones
};

struct LayerPlacement {
  /// The device runs attention, norms and predictor; false: it gets no part of the layer.
  bool on_device = true;
  bool all_gates = false;         // the device holds the gate rows of all neurons
  std::vector<int32_t> hot = {};  // neurons by number in the layout's order: ascending, no duplicates
  int64_t n_cache = 0;            // device rows of the neuron cache
  std::vector<int32_t> cached =
      {};  // neurons that are in the cache at first: ascending, none hot, at most n_cache
  /// In a mixture, the experts that the device holds, by number, ascending; slot s holds experts[s]
  /// (DeviceExperts). The CPU computes the others. Empty in layers without experts.
  std::vector<int32_t> experts = {};
};

/// The parts of a model that a device gets.
struct Placement {
  Placement(std::vector<LayerPlacement> layers_, size_t stream_bytes_ = 0)  // NOLINT: layers are one
      : layers(std::move(layers_)), stream_bytes(stream_bytes_) {}
  std::vector<LayerPlacement> layers;  // [n_layers]
  size_t stream_bytes;                 // bytes of each of the two buffers for streaming, see StepBounds
};

}  // namespace hearth
