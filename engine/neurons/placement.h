// Defines the share of each layer that a device gets. place_model() decides the shares
// (engine/placement/place_model.h), a Plan counts their bytes (engine/residency/plan.h), and loading copies
// them to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hearth {

/// Ways to split a model between the CPU and a device that is too small for all of it.
enum class DeviceSplit : uint8_t {
  kAuto,     // the split that decodes faster: by neurons if many are skipped, else by layers
  kNeurons,  // the device gets the most frequently active neurons of every layer
  kLayers,   // the device gets whole layers, beginning with the last one
};

/// The part of the layer that predicts later tokens (engine/forward/nextn_pass.h) that a device has.
enum class NextnShare : uint8_t {
  kNone,           // nothing: the CPU computes the layer, or there is none
  kAllButExperts,  // all but the experts of its mixture
  kWhole,
};

struct LayerPlacement {
  /// The device runs the layer's attention, norms and predictor. If false, the device gets no part of the
  /// layer.
  bool on_device = true;
  bool all_gates = false;         // the device holds the gate rows of all neurons
  std::vector<int32_t> hot = {};  // neuron numbers in the layout's order: ascending, no duplicates
  int64_t n_cache = 0;            // device rows of the neuron cache
  /// The neurons that are in the cache after loading: ascending, none of them hot, at most n_cache.
  std::vector<int32_t> cached = {};
  /// The numbers of the experts that the device holds, ascending; expert slot s holds experts[s]
  /// (DeviceExperts). The CPU computes the other experts. Empty in layers without experts.
  std::vector<int32_t> experts = {};
};

/// The parts of a model that a device gets.
struct Placement {
  Placement(std::vector<LayerPlacement> layers_, size_t stream_bytes_ = 0)  // NOLINT: implicit on purpose
      : layers(std::move(layers_)), stream_bytes(stream_bytes_) {}
  std::vector<LayerPlacement> layers;  // [n_layers]
  // Bytes of each of the two buffers for streaming (StepBounds).
  size_t stream_bytes;
};

}  // namespace hearth
