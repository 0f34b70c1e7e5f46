// Counts how much of a device's memory a placement takes, before any memory is allocated.
//
// The functions that later allocate device memory also count it here, with a MemoryMeter. So a plan's sum is
// exactly the memory that the device must have free, and nothing more is allocated later. A plan decides
// nothing: placements come from engine/placement/place_model.h. Plain data, made on the loading thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/model/model_spec.h"
#include "engine/model/nextn_weights.h"
#include "engine/model/weights.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/neurons/placement.h"
#include "engine/neurons/sparsity.h"

namespace hearth {

/// The inputs of a plan. Everything they refer to must stay valid while the plan is made.
struct PlanInputs {
  const ModelSpec& spec;
  const Weights& weights;
  const NeuronLayout& host;  // layout of the neurons in host memory, filled or not
  Sparsity mode = Sparsity::kDense;
  PassBounds bounds;  // the plan sets shares and stream_bytes
  KvBlockCounts kv_counts = {};
  DeviceSplit split = DeviceSplit::kAuto;
  // Neurons will be prefetched, so the plan may have a neuron cache; experts will be exchanged.
  bool prefetch = true;
  /// For each neuron of the layout, its number in the file. Null or empty if the layout keeps the file's
  /// order.
  const NeuronLayout::Order* order = nullptr;
  bool experts = true;  // a device may hold experts of a mixture
  /// The layer that predicts later tokens, and the device's part of it. Null: no layer drafts.
  const NextnWeights* nextn = nullptr;
  NextnShare nextn_share = NextnShare::kNone;
};

/// Bytes of device memory, by use.
struct DeviceBytes {
  size_t attention = 0;  // matrices and norms of attention
  size_t output = 0;
  size_t predictors = 0;
  size_t kv = 0;
  size_t states = 0;  // of recurrent layers, for all sequences
  size_t gates = 0;   // gates of all neurons of a layer
  // Neurons, including their gates unless `gates` counts them. In a mixture: dense FFNs and shared experts.
  size_t hot = 0;
  size_t experts = 0;  // resident experts of a mixture, with the tables that their layers need (ExpertSlabs)
  size_t cache = 0;    // device rows for cold neurons
  size_t drafts = 0;   // the layer that predicts later tokens (NextnPass), without its keys and values
  size_t tables = 0;   // scales of coded columns, biases, the map from neurons to device rows
  size_t scratch = 0;  // scratch of a step
  size_t stream = 0;   // buffers for streaming cold neurons

  size_t total() const {
    return attention + output + predictors + kv + states + gates + hot + experts + cache + drafts + tables +
           scratch + stream;
  }
};

struct Plan {
  std::vector<LayerPlacement> layers;  // [n_layers]
  bool shares = false;                 // the device and the CPU share the neurons of at least one layer
  size_t stream_bytes = 0;             // size of each of the two stream buffers
  /// In long steps, the device may compute layers that are in host memory. This many bytes are reserved for
  /// the keys of one such layer, and as many again for its values. 0 if there are no such layers.
  size_t stream_kv_bytes = 0;
  size_t budget_bytes = 0;                     // the budget of the plan
  NextnShare nextn_share = NextnShare::kNone;  // PlanInputs::nextn_share, if a layer drafts
  bool holds_experts = false;                  // the device holds experts of at least one layer
  DeviceBytes device;
  /// Bytes of neurons (in a mixture, of experts) that belong to the device's layers but are only in host
  /// memory.
  size_t cold_bytes = 0;
  /// The part of cold_bytes that the device cannot hold even if its memory were large enough: experts that
  /// why_not_experts() keeps in host memory.
  size_t unplaceable_bytes = 0;
  /// Reason why unplaceable_bytes is not 0, as a phrase. Empty if it is 0 or if PlanInputs::experts is false.
  std::string why_unplaceable;

  int n_device_layers() const;
  bool whole() const;  // the device holds the whole model
  /// Whether the device holds all that it can hold of the model: everything except unplaceable_bytes.
  bool is_complete() const;
  std::vector<bool> on_device() const;
  /// Returns the bounds of a forward pass with this plan. steps: bounds without the parts that depend on a
  /// plan.
  PassBounds bounds(PassBounds steps) const;
  /// For the log: "GPU 5.8 of 6.0 GB: ..." and the bytes of each part, as one sentence per line.
  std::vector<std::string> lines(const ModelSpec& spec) const;
  /// The contents of lines() and the numbers of every layer, as one JSON object for files.
  std::string json(const ModelSpec& spec) const;

 private:
  std::string neurons_line(const ModelSpec& spec) const;
  std::string experts_line(const ModelSpec& spec) const;
  std::string held_text(const ModelSpec& spec) const;
};

/// Returns the plan of a placement. The plan may exceed the budget.
Plan placed_plan(const PlanInputs& inputs, Placement placement, size_t budget);

/// If the plan is complete (Plan::is_complete), adds KV blocks for as many further contexts as fit in its
/// budget. inputs: the inputs of the plan, with KV blocks for n_contexts contexts. counts_of(n): the KV block
/// counts for n contexts. Returns the plan's new number of contexts, from n_contexts to `most`. An incomplete
/// plan stays unchanged, because its memory is better used for neurons, experts and layers.
int add_contexts(Plan& plan, const PlanInputs& inputs, int n_contexts, int most,
                 const std::function<KvBlockCounts(int n)>& counts_of);

/// Returns the reason, as a phrase, why the experts of this layer must stay in host memory. Empty if a device
/// may hold experts of the layer, or if the layer has none.
std::string why_not_experts(const PlanInputs& inputs, int layer);

/// Returns `asked`, or the split by whole layers if that is the only one possible: if some layers have no FFN
/// or an FFN of a different width, or if the model stays whole.
DeviceSplit possible_split(const ModelSpec& spec, DeviceSplit asked);

/// A placement that gives a whole layer to the device: attention, and all neurons except a mixture's experts.
LayerPlacement whole_layer(const ModelSpec& spec);
/// Like whole_layer(), with all experts that the device may hold.
LayerPlacement whole_layer(const PlanInputs& inputs, int layer);

/// Returns the smallest placement. This is the attention of the last layer without neurons, or the whole last
/// layer if layers must not be split, or all layers if the model stays whole (ModelSpec::stays_whole()).
Placement least_placement(const PlanInputs& inputs);
/// The bytes of the smallest placement. A device cannot be used with a smaller budget.
size_t least_bytes(const PlanInputs& inputs);

/// The device memory that these placements need: exactly the bytes that loading will allocate.
DeviceBytes device_bytes(const PlanInputs& inputs, const std::vector<LayerPlacement>& layers,
                         size_t stream_bytes);

/// Whether a device could compute, in long steps, layers of this model that are in host memory. This requires
/// three things: weights are read from the file, the FFN consists of whole matrices without biases, and keys
/// and values are in ordinary KV blocks (no KvBlockCounts::window).
bool can_stream_layers(const PlanInputs& inputs);

/// Returns the part of device_bytes() that is scratch memory of a step within `bounds`. REQUIRES: `bounds`
/// has no stream buffers.
size_t step_scratch_bytes(const ModelSpec& spec, const Weights& weights, const PassBounds& bounds);

/// Whether a layer has neurons on the device and others in host memory.
bool is_shared(const LayerPlacement& layer, const ModelSpec& spec);

/// Whether neurons are read from the file: true for dense runs in which no layer is shared. All other runs
/// use bundles.
bool takes_file_views(Sparsity mode, bool shares);

}  // namespace hearth
