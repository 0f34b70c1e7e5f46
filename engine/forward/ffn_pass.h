// Runs the FFN of a layer in every sparsity mode: finds the neurons to compute, then adds up their
// contributions.
//
// Owned by ForwardPass; engine thread. All memory is allocated by the constructor. engine/neurons/sparsity.h
// defines the modes, engine/neurons/neuron_layout.h the location of a neuron's bytes; Backend has the
// arithmetic.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/activity/activity_counter.h"
#include "engine/activity/live_activity.h"
#include "engine/forward/neuron_observer.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/expert_layout.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/neurons/sparsity.h"
#include "kernels/backend.h"

namespace hearth {

/// How FfnPass is to run.
struct FfnMode {
  Sparsity sparsity = Sparsity::kDense;
  float predictor_threshold = 0;  // predicted
  bool verify_predictor = false;  // predicted: also compute all gates, to count the predictor's errors
  std::vector<float> thresholds;  // calibrated: [n_layers], least contribution that counts
};

/// Sums over layers and tokens.
struct FfnCounts {
  int64_t n_token_layers = 0;   // tokens times layers with counted neurons
  int64_t n_expert_layers = 0;  // tokens times layers with experts
  NeuronCounts neurons;
  ExpertCounts experts;
  int64_t n_verified = 0;             // tokens times layers with a verified predictor
  int64_t truly_active = 0;           // neurons that pass the gate, proposed or not (predictor verified)
  int64_t truly_active_proposed = 0;  // proposed ones among truly_active
};

/// Called in calibrated mode for all neurons of one layer, before any is skipped: values [n_tokens, d_ff] and
/// down_sizes [d_ff] (Euclidean norms of the down columns), in host memory and in the layout's order.
using ValueObserver =
    std::function<void(int layer, const float* values, const float* down_sizes, int n_tokens)>;

/// Sets and buffers of the FFN in one device's memory.
struct FfnWorkspace {
  FfnWorkspace() = default;
  bool empty() const { return gate.bytes() == 0; }
  FfnWorkspace(Memory& memory, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Sets of neurons in the device's backend, which reserves kSets of them (StepBounds::n_sets).
  static constexpr int kSets = 3;
  void make_sets(Backend& backend);
  NeuronSetId wanted;        // wanted by the layer's tokens
  NeuronSetId proposed;      // likely wanted by the tokens of a later hybrid layer
  NeuronSetId truly_active;  // neurons that pass the gate, proposed or not

  Buffer gate, up;  // [max_tokens, d_ff | d_shared]
  Buffer router;    // [max_tokens, n_experts]
  Buffer hidden;    // [max_tokens, largest predictor rank]
  Buffer logits;    // [max_tokens, d_ff] logits of the predictor
};

class FfnPass {
 public:
  /// All references and the devices' backends must outlive the pass. It starts in dense mode, with the
  /// neurons as they are in the file. REQUIRES: the backends have reserved FfnWorkspace::kSets.
  FfnPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Upper bound of the buffers' bytes, for the widest predictors allowed. A double, so that absurd sizes do
  /// not wrap around.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  /// Sets the mode from now on. The layouts must outlive the pass and hold the rows that the mode reads. In
  /// exact mode, mixtures skip zeros in the experts of `experts` (null or empty: nowhere); their other FFNs
  /// are computed whole.
  void use(const FfnMode& mode, const NeuronLayout& layout, const ExpertLayout* experts = nullptr);

  /// Proposes neurons, or computes the router's logits, if the architecture's predictor or router reads the
  /// layer's input, x [n_tokens, d_model]. Call it before the layer adds its attention to x.
  void before_attention(int layer, const float* x, int n_tokens);

  /// Call begin_step() before and end_step() after all other calls of a step; end_step() once the devices
  /// have finished. streams: the device computes all layers (ComputeDevice::streams_layers).
  void begin_step(bool streams = false) {
    streams_ = streams;
    found_later_.clear();
  }
  void end_step();
  /// Whether the current step reports single neurons, for the counter or for the live view.
  bool counts_step() const { return found_of_step() != nullptr; }

  /// out += FFN(normed), both [n_tokens, d_model]. x: the residual stream before the FFN, which predictors
  /// read; out may be x. The CPU computes the experts of a mixture, even if the layer is a device's.
  void run(int layer, const float* normed, const float* x, int n_tokens, float* out);

  /// Sums over all runs since the last reset; neurons are counted in sparse modes only.
  const FfnCounts& counts() const { return counts_; }
  void reset_counts();
  /// Counts single neurons from now on (in mixtures, the experts that tokens choose); null: stops counting.
  /// Dense modes are counted only if there is one down row per neuron. The counter must outlive the pass or
  /// be detached with null. A device's backend has memory for the active neurons of steps of up to the
  /// counter's max_tokens (ComputeDevice::reserve_found).
  void count_activity(ActivityCounter* counter) { counter_ = counter; }
  /// Shows sampled steps from now on, under the same conditions as count_activity(); null: shows none. The
  /// device has memory for the active neurons of steps of up to Shape::max_tokens.
  void show_activity(LiveActivity* live) { live_ = live; }
  /// Predicted mode: whether a shared layer's input also goes to the predictor of the second next one, so
  /// that neurons can be prefetched.
  void look_ahead(bool on) { looks_ahead_ = on; }
  /// Calibrated mode: replaces the thresholds [n_layers]. They may be infinite.
  void set_thresholds(std::span<const float> thresholds);
  /// Calibrated mode: sets the observer of values; empty: none. With a device, observed steps take longer:
  /// their values are copied to host memory, and those of shared layers are computed twice.
  void observe_values(ValueObserver observer);
  /// Dense mode without a device: sets the observer of every neuron; null: none. The observer must outlive
  /// the pass or be detached with null.
  void observe_neurons(NeuronObserver* observer) { neuron_observer_ = observer; }
  bool is_observed() const { return neuron_observer_ != nullptr; }

 private:
  /// One layer in a step: the backend that computes it, and its buffers.
  struct LayerCall {
    Backend& backend;
    const FfnWorkspace& work;
    int layer;
    const NeuronLayer& neurons;
    const float* normed;
    const float* x;
    int n_tokens;
    float* out;
  };
  LayerCall call_of(int layer, const float* normed, const float* x, int n_tokens, float* out) const;

  /// The lists to which the current step's layers write their active neurons; null: none.
  const ActiveNeurons* found_of_step() const {
    if (counter_ != nullptr && !counter_->counts_experts() && counter_->found() != nullptr)
      return counter_->found();
    return live_ != nullptr ? live_->found() : nullptr;
  }
  void tell_found(int layer);
  void run_mixture(const LayerCall& call);
  void announce(const LayerCall& call);
  void count_choice(int layer);
  void compute_router(const LayerCall& call, const float* x);
  void compute_experts(const LayerCall& call, const float* x);
  Router router_of(int layer) const;
  void run_sparse(const LayerCall& call);
  void run_dense(const LayerCall& call);
  void compute_values(const LayerCall& call);
  void compute_observed_values(const LayerCall& call);
  void run_all_neurons(const LayerCall& call);
  void run_hybrid(const LayerCall& call);
  void add_wanted(const LayerCall& call, const float* gates, std::optional<float> least_contribution = {});
  void run_exact(const LayerCall& call);
  void run_predicted(const LayerCall& call);
  void run_calibrated(const LayerCall& call);
  void predict(const LayerCall& call, int layer, const float* input, NeuronSetId set);
  void propose(const LayerCall& call, const float* input);
  std::optional<Proposal> look_ahead(const LayerCall& call);
  void verify(const LayerCall& call);
  void want_all(const LayerCall& call);
  void take_cpu_work();
  void observe_shared(const LayerCall& call);
  void multiply_split(const LayerCall& call, const Matrix FfnNeurons::*weight, const float* FfnNeurons::*bias,
                      float* out);

  Devices devices_;
  const ModelSpec& spec_;
  const Weights& weights_;
  NeuronLayout in_file_;
  const NeuronLayout* layout_;
  const ExpertLayout* experts_ = nullptr;  // null: experts are computed whole
  FfnMode mode_;
  FfnCounts counts_;
  ActivityCounter* counter_ = nullptr;
  LiveActivity* live_ = nullptr;
  std::vector<int> found_later_;  // layers whose active neurons the device reports at the end of the step
  ValueObserver observer_;
  NeuronObserver* neuron_observer_ = nullptr;

  bool streams_ = false;  // see begin_step()
  ExpertChoice choice_;   // of the current layer
  bool looks_ahead_ = false;

  const int max_tokens_;
  // Empty for a device that does not exist; the CPU's is also empty if it has no layers and nobody requests
  // values of shared ones.
  FfnWorkspace on_cpu_, on_device_;
  Buffer mixed_;  // [max_tokens, d_model], output of the experts, in host memory; empty if there are none
  std::vector<float> shared_input_;  // [max_tokens, d_model] input of a layer whose products are split
};

}  // namespace hearth
