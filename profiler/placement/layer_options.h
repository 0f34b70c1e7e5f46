// What a layer can be given of a device, what that takes, and how long a token then takes in it.
//
// Of a layer whose attention is on the device, a prefix of its neurons by activity is there for good (n_hot).
// Behind them lies a cache (n_cache), where three quarters of the places hold the neurons that are wanted
// most often after the hot ones, and a quarter those that come for one token and go (engine/residency/neuron_cache.h
// empties a quarter at most a step ahead). So both are told by one number, the prefix that is mostly there.
//
// The layer's time is not linear in what it gets: GPU and CPU work at the same time, and the slower counts.
// Since layers run one after the other and a layer's options are listed one by one, that largest of two is
// taken here, exactly, for each option; nothing is linearised.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/residency/token_bytes.h"
#include "profiler/placement/choice_chain.h"
#include "profiler/placement/cost_model.h"
#include "profiler/placement/model_facts.h"

namespace hearth {

struct LayerOption {
  bool on_device = false;
  bool all_gates = false;
  int64_t n_hot = 0, n_cache = 0;
  /// The layer's most active neurons that the device has for nearly every token.
  int64_t n_there() const { return n_hot + n_cache * 3 / 4; }
  bool operator==(const LayerOption&) const = default;
};

/// One decoded token's work in a layer, or summed over layers.
struct TokenWork {
  TokenBytes bytes;          // by who reads them
  double brought_bytes = 0;  // of cold neurons, over PCIe
  // Seconds. Of the GPU's and the CPU's neurons of a layer only the slower counts.
  double device_whole = 0;    // attention, predictor, gates that are read whole, output
  double device_neurons = 0;  // where the GPU is the slower
  double cold_neurons = 0;    // where the CPU is
  double host_layers = 0;
  double kernels = 0;
  double hand_overs = 0;

  double seconds() const {
    return device_whole + device_neurons + cold_neurons + host_layers + kernels + hand_overs;
  }
  TokenWork& operator+=(const TokenWork& other);
};

/// Kernels that one decoded token starts in a layer of the device's: as a Llama's layers do, which have the
/// most. Counted on the emulator by a test (tests/profiler/placement/solved_placement_test.cpp).
constexpr double layer_kernels(Sparsity mode, bool shared) {
  return 22 + (mode == Sparsity::kPredicted ? 6 : 0) + (shared ? 4 : 0);
}

/// Of one layer's options.
class LayerOptions {
 public:
  /// All outlive it. `cache`: neurons may be brought while the model runs.
  LayerOptions(const ModelFacts& facts, int layer, const CostModel& cost, bool cache);

  TokenWork work(const LayerOption& option) const;
  int64_t vram(const LayerOption& option) const;
  int64_t ram(const LayerOption& option) const;

  /// All there are, neurons in groups of kGroup (PowerInfer's), and for each what choose() asks.
  void list(std::vector<LayerOption>& options, std::vector<Choice>& choices) const;
  static constexpr int64_t kGroup = 64;

  /// Share of the layer's activations that are on the device.
  double caught(const LayerOption& option) const;

 private:
  TokenWork host_work() const;
  TokenWork device_work(const LayerOption& option) const;
  void add(const LayerOption& option, std::vector<LayerOption>& options, std::vector<Choice>& choices) const;
  /// Neurons among the n most active that are proposed for a token.
  double proposed(int64_t n) const;

  const ModelFacts& facts_;
  const LayerFacts& layer_;
  const ActivityCurve& curve_;
  const CostModel& cost_;
  const bool cache_;
  const double useful_;
  const ColdRead alone_, brought_;
};

}  // namespace hearth
