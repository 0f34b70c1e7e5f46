// The FFN of every layer, in every mode of sparsity: which neurons, then their sum.
//
// Owned by ForwardPass; engine thread. All memory is taken when it is built. Modes: engine/residency/sparsity.h; which
// bytes a neuron is read from: engine/residency/neuron_layout.h; the arithmetic: Backend.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/activity/activity_counter.h"
#include "engine/forward/devices.h"
#include "engine/forward/neuron_observer.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/neuron_layout.h"
#include "engine/residency/sparsity.h"
#include "kernels/backend.h"

namespace hearth {

/// How FfnPass is to run.
struct FfnMode {
  Sparsity sparsity = Sparsity::kDense;
  float predictor_threshold = 0;  // predicted
  bool verify_predictor = false;  // predicted: count its errors, at the price of all gates
  std::vector<float> thresholds;  // calibrated: [n_layers], least contribution that counts
};

/// Sums over layers and tokens.
struct FfnCounts {
  int64_t n_token_layers = 0;  // tokens times layers
  NeuronCounts neurons;
  int64_t n_verified = 0;             // tokens times layers whose predictor was verified
  int64_t truly_active = 0;           // neurons whose gate passes, proposed or not (predictor verified)
  int64_t truly_active_proposed = 0;  // of these, proposed
};

/// Looks at every neuron of one layer in calibrated mode, before any is skipped: values [n_tokens, d_ff],
/// down_sizes [d_ff] (Euclidean norms of the down columns), in the layout's order.
using ValueObserver =
    std::function<void(int layer, const float* values, const float* down_sizes, int n_tokens)>;

/// What the FFN works on in one device's memory.
struct FfnWorkspace {
  FfnWorkspace() = default;
  FfnWorkspace(Memory& memory, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Sets of neurons of the device's backend, which reserves so many (StepBounds::n_sets).
  static constexpr int kSets = 3;
  void make_sets(Backend& backend);
  NeuronSetId wanted;        // by the layer's tokens
  NeuronSetId wanted_next;   // probably by those of the next hybrid layer
  NeuronSetId truly_active;  // the gate passes, whatever the predictor says

  Buffer gate, up;  // [max_tokens, d_ff]
  Buffer hidden;    // [max_tokens, largest predictor rank]
  Buffer logits;    // [max_tokens, d_ff] of the predictor
};

class FfnPass {
 public:
  /// All references, and the devices' backends, must outlive the pass. Begins in dense mode, with the neurons
  /// as they lie in the file. REQUIRES: the backends have reserved FfnWorkspace::kSets.
  FfnPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Bytes that the buffers take at most, with predictors as wide as they may be. A double, which absurd
  /// sizes do not wrap.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  /// How to run from now on. `layout` must outlive the pass, and hold what the mode reads.
  void use(const FfnMode& mode, const NeuronLayout& layout);

  /// Proposes neurons where the architecture's predictor reads the layer's input, x [n_tokens, d_model].
  /// Called before the layer adds its attention to x.
  void before_attention(int layer, const float* x, int n_tokens);

  /// Around all calls of a step; the end comes when the devices have finished.
  void begin_step() { found_later_.clear(); }
  void end_step();
  /// Whether single neurons are counted in the step that the counter has begun.
  bool counts_step() const { return counter_ != nullptr && counter_->found() != nullptr; }

  /// x += FFN(normed), both [n_tokens, d_model].
  void run(int layer, const float* normed, float* x, int n_tokens);

  /// Of all runs since the last reset, in sparse modes.
  const FfnCounts& counts() const { return counts_; }
  void reset_counts();
  /// Single neurons are counted from now on, or no more (null); in a dense mode only where there is one row
  /// per neuron. The counter outlives the pass or is taken back. A device's backend has memory for what steps
  /// of the counter's max_tokens find in its layers (ComputeDevice::reserve_found).
  void count_activity(ActivityCounter* counter) { counter_ = counter; }
  /// Predicted mode: whether each layer's input is given to the next one's predictor too, for whoever brings
  /// neurons to a device ahead of their use.
  void look_ahead(bool on) { looks_ahead_ = on; }
  /// Calibrated mode: other thresholds, [n_layers], from now on. They may be infinite.
  void set_thresholds(std::span<const float> thresholds);
  /// Calibrated mode: who is shown the values from now on; empty: nobody.
  void observe_values(ValueObserver observer) { observer_ = std::move(observer); }
  /// Dense mode without a device: who is shown every neuron from now on; null: nobody. Outlives the pass or
  /// is taken back.
  void observe_neurons(NeuronObserver* observer) { neuron_observer_ = observer; }

 private:
  /// A layer's step: who computes it, on what.
  struct LayerCall {
    Backend& backend;
    const FfnWorkspace& work;
    int layer;
    const NeuronLayer& neurons;
    const float* normed;
    float* x;
    int n_tokens;
  };
  LayerCall call_of(int layer, const float* normed, float* x, int n_tokens) const;

  void run_sparse(const LayerCall& call);
  void run_dense(const LayerCall& call);
  void compute_values(const LayerCall& call);
  void compute_observed_values(const LayerCall& call);
  void run_all_neurons(const LayerCall& call);
  void run_hybrid(const LayerCall& call);
  void add_wanted(const LayerCall& call, const float* gates);
  void run_exact(const LayerCall& call);
  void run_predicted(const LayerCall& call);
  void run_calibrated(const LayerCall& call);
  void predict(const LayerCall& call, int layer, const float* input, NeuronSetId set);
  void propose(const LayerCall& call, const float* input);
  void verify(const LayerCall& call);
  void want_all(const LayerCall& call);

  Devices devices_;
  const ModelSpec& spec_;
  const Weights& weights_;
  NeuronLayout in_file_;
  const NeuronLayout* layout_;
  FfnMode mode_;
  FfnCounts counts_;
  ActivityCounter* counter_ = nullptr;
  std::vector<int> found_later_;  // layers of the step whose device tells at its end what they found
  ValueObserver observer_;
  NeuronObserver* neuron_observer_ = nullptr;

  bool looks_ahead_ = false;
  bool proposes_next_ = false;  // the layer's wanted_next was filled

  FfnWorkspace on_cpu_, on_device_;  // that of no device is empty
};

}  // namespace hearth
