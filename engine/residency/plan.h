// What of a model lives where: solved once at load, before anything is taken, from the bytes it will take.
//
// Bytes on the device are counted by the code that will take them (MemoryMeter), so that a plan's sum is what
// the device's memory must have, and nothing more is ever taken. Plain data; made on the loading thread.
//
// What comes first: scratch and the output, which every token reads; then, from the last layer on, attention
// with its keys and values, read whole for every token; then gates, where zeros of the activation let them
// tell who is active (a third of the neurons' bytes instead of all of them); then neurons, the most active
// first. Layers whose attention does not fit stay with the CPU whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/neuron_layout.h"
#include "engine/residency/placement.h"
#include "engine/residency/sparsity.h"

namespace hearth {

/// What a plan is made for; all of it outlives the planning.
struct PlanInputs {
  const ModelSpec& spec;
  const Weights& weights;
  const NeuronLayout& host;  // the neurons in host memory, whether or not it is filled
  Sparsity mode = Sparsity::kDense;
  PassBounds bounds;  // shares and stream_bytes are the plan's to decide
  int n_kv_blocks = 0;
  bool prefetch = true;  // a neuron cache is of use
  /// Which neuron of the file each neuron of the layout is; null or empty: they are in the file's order.
  const NeuronLayout::Order* order = nullptr;
};

/// Bytes of the device's memory, by what they are for.
struct DeviceBytes {
  size_t attention = 0;  // its matrices and norms
  size_t output = 0;
  size_t predictors = 0;
  size_t kv = 0;
  size_t gates = 0;    // of all neurons of a layer
  size_t hot = 0;      // neurons, with the gates that are not in `gates`
  size_t cache = 0;    // places of neurons that come and go
  size_t tables = 0;   // scales of coded columns, biases, who has a slot
  size_t scratch = 0;  // of a step
  size_t stream = 0;   // buffers through which cold neurons of prompts go

  size_t total() const {
    return attention + output + predictors + kv + gates + hot + cache + tables + scratch + stream;
  }
};

struct Plan {
  std::vector<LayerPlacement> layers;  // [n_layers]
  bool shares = false;                 // some layer's neurons are on both the device and the CPU
  size_t stream_bytes = 0;             // of each of two buffers
  size_t budget_bytes = 0;             // that it was made for
  DeviceBytes device;
  size_t cold_bytes = 0;  // of neurons in host memory that layers of the device have

  int n_device_layers() const;
  bool whole() const;  // the device has all of the model
  std::vector<bool> on_device() const;
  /// For the log: "GPU 5.8 of 6.0 GB: ..." and what each part takes. One sentence a line.
  std::vector<std::string> lines(const ModelSpec& spec) const;
  /// The same as one JSON object, with every layer's numbers. For files.
  std::string json(const ModelSpec& spec) const;
};

/// The most that `budget` bytes of the device hold. nullopt: not even one layer; see least_bytes().
std::optional<Plan> make_plan(const PlanInputs& inputs, DeviceSplit split, size_t budget);

/// A plan of this placement, whatever the budget.
Plan placed_plan(const PlanInputs& inputs, Placement placement, size_t budget);

/// The least budget for which there is a plan.
size_t least_bytes(const PlanInputs& inputs);

/// What these placements take of the device: to the byte what loading will.
DeviceBytes device_bytes(const PlanInputs& inputs, const std::vector<LayerPlacement>& layers,
                         size_t stream_bytes);

/// Whether a layer's neurons lie on the device and in host memory.
bool is_shared(const LayerPlacement& layer, const ModelSpec& spec);

/// Whether neurons are read as they lie in the file: in dense runs without a shared layer. Others take
/// bundles.
bool takes_file_views(Sparsity mode, bool shares);

}  // namespace hearth
