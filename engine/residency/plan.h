// Which parts of a model a device gets: decided once at load, before any memory is allocated.
//
// The code that will allocate device memory also counts it (MemoryMeter). So the sum of a plan is exactly what the
// device must have free, and nothing more is ever allocated. Plain data; made on the loading thread.
//
// The order of priority: scratch and the output matrix, which every token reads; then attention with its keys and
// values, from the last layer backwards, because every token reads them whole; then the gates, if the activation has
// zeros, because they tell which neurons are active for a third of the neurons' bytes; then neurons, the most active
// first. A layer whose attention does not fit stays with the CPU as a whole.
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

/// The inputs of a plan; everything referred to outlives the planning.
struct PlanInputs {
  const ModelSpec& spec;
  const Weights& weights;
  const NeuronLayout& host;  // the neurons in host memory, whether or not it is filled
  Sparsity mode = Sparsity::kDense;
  PassBounds bounds;  // shares and stream_bytes are the plan's to decide
  int n_kv_blocks = 0;
  bool prefetch = true;  // something will fill a neuron cache, so the plan may have one
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
  size_t cache = 0;    // device rows for cold neurons
  size_t tables = 0;   // scales of coded columns, biases, which neuron has which device row
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
  size_t budget_bytes = 0;             // the plan was made for
  DeviceBytes device;
  size_t cold_bytes = 0;  // of neurons in host memory that layers of the device have

  int n_device_layers() const;
  bool whole() const;  // the device has the whole model
  std::vector<bool> on_device() const;
  /// For the log: "GPU 5.8 of 6.0 GB: ..." and what each part takes. One sentence a line.
  std::vector<std::string> lines(const ModelSpec& spec) const;
  /// The same as one JSON object, with every layer's numbers. For files.
  std::string json(const ModelSpec& spec) const;
};

/// The plan that puts most into `budget` bytes of the device. nullopt if not even one layer fits; see least_bytes().
std::optional<Plan> make_plan(const PlanInputs& inputs, DeviceSplit split, size_t budget);

/// The plan of a given placement. It may exceed the budget.
Plan placed_plan(const PlanInputs& inputs, Placement placement, size_t budget);

/// The smallest budget for which make_plan() finds a plan.
size_t least_bytes(const PlanInputs& inputs);

/// The device memory that these placements take: exactly the bytes that loading will allocate.
DeviceBytes device_bytes(const PlanInputs& inputs, const std::vector<LayerPlacement>& layers,
                         size_t stream_bytes);

/// Whether a layer has neurons both on the device and in host memory.
bool is_shared(const LayerPlacement& layer, const ModelSpec& spec);

/// Whether neurons are read as they lie in the file: in dense runs without a shared layer. Others take
/// bundles.
bool takes_file_views(Sparsity mode, bool shares);

}  // namespace hearth
