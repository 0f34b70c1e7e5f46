// What a placement is solved from, of one model in one mode: bytes by layer, where they would lie and how
// often they are read.
//
// Bytes that the device takes are counted by the engine (engine/residency/plan.h, device_bytes), layer by layer; bytes
// that are read follow engine/residency/token_bytes.h. Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/residency/plan.h"
#include "profiler/placement/activity_curve.h"

namespace hearth {

/// What is assumed where nothing was measured. Each is a row of docs/performance.md, "Predicted speeds".
struct PlacementAssumptions {
  /// Predicted mode: neurons that a predictor proposes for each one that is active. The predictors of
  /// tests/data/relu propose 23 to 31 % where 18 % are active.
  double proposed_per_active = 1.3;
  /// Of the neurons brought ahead of their use, the share that is wanted: by the next layer's predictor,
  /// right for 93 to 97 % (DESIGN of Deja Vu's lookahead), or by what the layer wanted last, which repeats
  /// for 25 to 30 % in a ReGLU model (DynamicInfer).
  double useful_predicted = 0.9, useful_repeated = 0.3;
  /// Of the context, how much is there when a token is decoded.
  double context_filled = 0.5;
};

/// A neuron's rows and what lies with them. In bytes.
struct LayerFacts {
  // Read for every token, by whoever has the layer.
  double attention_read = 0;  // with keys and values
  double predictor_read = 0;
  double scales_read = 0;  // of a coded down projection
  // Of one neuron, as they are read.
  double gate = 0, up = 0, down = 0;
  // Taken of the device.
  int64_t vram_shared = 0;  // attention, keys and values, norms, predictor, tables; no neuron
  int64_t vram_gates = 0;   // gate rows of all neurons
  // Taken of the host.
  int64_t ram_whole = 0;    // a layer of the CPU's, with its keys and values
  int64_t ram_shared = 0;   // what stays of a device's layer, besides cold neurons
  int64_t ram_neuron = 0;   // a neuron's bundle
  bool gives_back = false;  // bundles of hot neurons are given back
  // Weights, for prompts.
  double attention_weights = 0, ffn_weights = 0;
  bool operator==(const LayerFacts&) const = default;
};

struct ModelFacts {
  Sparsity mode = Sparsity::kDense;
  int d_model = 0, d_ff = 0, n_heads = 0;
  bool gated = true;
  std::vector<LayerFacts> layers;
  const ModelActivity* activity = nullptr;  // outlives the facts
  PlacementAssumptions assumptions;
  double output_read = 0;
  double output_weights = 0;
  int prefill_tokens = 1;  // of a step
  int64_t vram_fixed = 0;  // scratch and output, of a plan whose neurons are shared
  int64_t vram_whole = 0;  // everything on the device
  int64_t ram_fixed = 0;   // embeddings and the host's work space
  int64_t vram_least = 0;  // the least budget that there is a plan for
};

/// `order_known`: the layout has the most active neurons first, so that hot ones are given back in the host.
/// `activity` must outlive the facts.
ModelFacts model_facts(const PlanInputs& inputs, const ModelActivity& activity, bool order_known,
                       const PlacementAssumptions& assumptions = {});

}  // namespace hearth
