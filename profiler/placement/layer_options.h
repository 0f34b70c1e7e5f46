// The facts and options that the solver chooses from. The facts of one model in one mode: bytes by layer,
// where they would lie, how often they are read. Each layer's options: what the device gets of it, how many
// bytes that takes, and how long a decoded token then spends in the layer.
//
// Bytes on the device are counted by the engine, layer by layer (engine/residency/plan.h, device_bytes);
// bytes that are read follow engine/residency/token_bytes.h.
//
// Of a layer whose attention is on the device, a prefix of its neurons by activity stays there (n_hot).
// Behind them lies a cache (n_cache). Three quarters of its entries hold the neurons that are wanted most
// often after the hot ones; one quarter holds neurons that come for one token and go
// (engine/residency/neuron_cache.h empties at most a quarter ahead of a step). So one number describes both:
// the prefix that is mostly there.
//
// A layer's time is not linear in what the device gets: GPU and CPU work at the same time, and the slower one
// counts. Layers run one after the other and a layer's options are listed one by one, so this maximum is
// computed exactly for each option; nothing is linearised.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/residency/plan.h"
#include "engine/residency/token_bytes.h"
#include "profiler/placement/activity_curve.h"
#include "profiler/placement/choice_chain.h"
#include "profiler/placement/cost_model.h"

namespace hearth {

/// Assumptions for what was not measured. Each is a row of docs/predictions.md.
struct PlacementAssumptions {
  /// Predicted mode: neurons that a predictor proposes for each one that is active. The predictors of
  /// tests/data/relu propose 23 to 31 % where 18 % are active.
  double proposed_per_active = 1.3;
  /// Of the neurons brought ahead of their use, the share that is wanted: by the next layer's predictor,
  /// right for 93 to 97 % (DESIGN of Deja Vu's lookahead), or by what the layer wanted last: 25 to 30 % of a ReGLU
  /// model's active neurons come again (DynamicInfer), fewer of those that are not hot.
  double useful_predicted = 0.9, useful_repeated = 0.2;
  /// The share of the context that is filled when a token is decoded.
  double context_filled = 0.5;
};

/// A neuron's rows and what lies with them. In bytes.
struct LayerFacts {
  // Read for every token, by the device that has the layer.
  double attention_read = 0;  // its matrices
  double kv_read = 0;         // keys and values of the part of the context that is filled
  double predictor_read = 0;
  double scales_read = 0;  // of a coded down projection
  // Bytes of one neuron, as they are read.
  double gate = 0, up = 0, down = 0;
  // Bytes of the device's memory.
  int64_t vram_shared = 0;  // attention, keys and values, norms, predictor, tables; no neuron
  int64_t vram_gates = 0;   // gate rows of all neurons
  // Bytes of host memory.
  int64_t ram_whole = 0;    // a layer that the CPU runs, with its keys and values
  int64_t ram_shared = 0;   // what remains of a layer on the device, besides cold neurons
  int64_t ram_neuron = 0;   // a neuron's bundle
  bool gives_back = false;  // bundles of hot neurons are given back
  // Weights, for prompts.
  double attention_weights = 0, ffn_weights = 0;
  // Types by which the GPU's kernels are chosen: of attention's matrices, of gates and ups, and of down rows.
  DType attention_type = DType::kQ4_0, ffn_type = DType::kQ4_0;
  bool down_is_quantized = true;  // else floats, or codes
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
  DType output_type = DType::kQ4_0;
  bool library = false;    // prompts' products with floats are a library's
  int prefill_tokens = 1;  // tokens of a step
  int64_t vram_fixed = 0;  // scratch and output, of a plan whose neurons are shared
  int64_t vram_whole = 0;  // everything on the device
  int64_t ram_fixed = 0;   // embeddings and the host's work space
  int64_t vram_least = 0;  // the least budget that a plan is possible with
};

/// `order_known`: the layout has the most active neurons first, so that hot ones are given back in the host.
/// `activity` must outlive the facts.
ModelFacts model_facts(const PlanInputs& inputs, const ModelActivity& activity, bool order_known,
                       const PlacementAssumptions& assumptions = {});

struct LayerOption {
  bool on_device = false;
  bool all_gates = false;
  int64_t n_hot = 0, n_cache = 0;
  /// How many of the layer's most active neurons the device has for nearly every token.
  int64_t n_there() const { return n_hot + n_cache * 3 / 4; }
  bool operator==(const LayerOption&) const = default;
};

/// One decoded token's work in a layer, or summed over layers.
struct TokenWork {
  TokenBytes bytes;          // by the device that reads them
  double brought_bytes = 0;  // of cold neurons, over PCIe
  // Seconds. If the GPU and the CPU both compute neurons of a layer, only the slower counts.
  double device_whole = 0;    // attention, predictor, gates that are read whole, output
  double device_neurons = 0;  // where the GPU is the slower
  double cold_neurons = 0;    // where the CPU is the slower
  double host_layers = 0;
  double kernels = 0;
  double hand_overs = 0;
  double step = 0;  // outside the layers, with a GPU

  double seconds() const {
    return device_whole + device_neurons + cold_neurons + host_layers + kernels + hand_overs + step;
  }
  TokenWork& operator+=(const TokenWork& other);
};

/// Kernels that one decoded token starts in a layer on the device, as in a Llama's layers with quantised weights, beyond 256
/// tokens of context. Tests count them on the emulator (tests/profiler/placement/solved_placement_test.cpp) and by class in
/// the simulation.
constexpr KernelCounts layer_kernels(Sparsity mode, bool shared) {
  using enum cuda::KernelClass;
  KernelCounts n = {};
  const auto add = [&n](cuda::KernelClass kind, double count) { n[static_cast<size_t>(kind)] += count; };
  // Attention: norm; queries, keys and values together; rotation, with keys and values put in place; attention; quantising; output.
  add(kNorm, 1);
  add(kProduct, 2);
  add(kSimple, 2);
  add(kAttention, 1);
  // The FFN's norm.
  add(kNorm, 1);
  if (mode == Sparsity::kDense && !shared) {  // gates and ups together, values, down
    add(kProduct, 2);
    add(kSimple, 1);
    return n;
  }
  // Before the set is a list: the predictor's two matrices, its activation and quantising between them, its set; then gates, and
  // what passed.
  if (mode == Sparsity::kPredicted) {
    add(kProduct, 2);
    add(kSimple, 2);
    add(kList, 2);
    add(kListedProduct, 1);
    add(kList, 1);
  } else if (mode == Sparsity::kExact) {  // gates; the neurons whose gates pass
    add(kProduct, 1);
    add(kList, 1);
  } else {  // all are wanted
    add(kSimple, 1);
    add(kListedProduct, 1);
    add(kList, 1);
  }
  // The set as a list; of a shared layer with what the host gets.
  add(shared ? kHandOver : kList, 1);
  // Ups, values, down, and their sums' end.
  add(kListedProduct, 1);
  add(kList, 1);
  add(kDownRows, 1);
  add(kSums, 1);
  return n;
}

/// Those of the predictor that looks ahead, besides: its input is quantised already.
constexpr KernelCounts look_ahead_kernels() {
  using enum cuda::KernelClass;
  KernelCounts n = {};
  n[static_cast<size_t>(kProduct)] = 2;
  n[static_cast<size_t>(kSimple)] = 1;
  n[static_cast<size_t>(kHandOver)] = 1;
  return n;
}

/// The options of one layer.
class LayerOptions {
 public:
  /// All arguments must outlive it. `cache`: neurons may be brought while the model runs.
  LayerOptions(const ModelFacts& facts, int layer, const CostModel& cost, bool cache);

  TokenWork work(const LayerOption& option) const;
  int64_t vram(const LayerOption& option) const;
  int64_t ram(const LayerOption& option) const;

  /// Lists all options (by_layers: a layer is whole on the device, or not there), with neurons in groups of kGroup (as in PowerInfer), and for each the input of
  /// choose().
  void list(std::vector<LayerOption>& options, std::vector<Choice>& choices, bool by_layers = false) const;
  static constexpr int64_t kGroup = 64;

  /// The share of the layer's activations that is on the device.
  double caught(const LayerOption& option) const;

 private:
  TokenWork host_work() const;
  ColdRead brought(bool all_gates, int64_t n_there) const;
  TokenWork device_work(const LayerOption& option) const;
  void add(const LayerOption& option, std::vector<LayerOption>& options, std::vector<Choice>& choices) const;
  /// How many of the n most active neurons are proposed for a token.
  double proposed(int64_t n) const;

  const ModelFacts& facts_;
  const LayerFacts& layer_;
  const ActivityCurve& curve_;
  const CostModel& cost_;
  const bool cache_;
  const double useful_;
  const ColdRead alone_;
};

}  // namespace hearth
