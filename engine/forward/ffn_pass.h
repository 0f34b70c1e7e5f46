// Chooses how a layer's FFN is computed and runs it: as a mixture of experts (MixturePass), with all neurons
// (dense_ffn.h), or sparsely. A sparse mode finds the neurons to compute and adds up their contributions.
//
// Owned by ForwardPass; engine thread. The constructor allocates all memory for steps without observers.
// engine/neurons/sparsity.h defines the modes, engine/neurons/neuron_layout.h defines where a neuron's bytes
// are, and Backend does the arithmetic.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/forward/ffn_observers.h"
#include "engine/forward/layer_call.h"
#include "engine/forward/mixture_pass.h"
#include "engine/forward/neuron_predictor.h"
#include "engine/forward/split_product.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/expert_layout.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/neurons/sparsity.h"
#include "engine/step/model_figures.h"
#include "kernels/backend.h"

namespace hearth {

/// The mode in which FfnPass runs.
struct FfnMode {
  Sparsity sparsity = Sparsity::kDense;
  float predictor_threshold = 0;  // predicted
  bool verify_predictor = false;  // predicted: also compute all gates, to count the predictor's errors
  std::vector<float> thresholds;  // calibrated: [n_layers], smaller contributions are skipped
};

/// Sums over layers and tokens.
struct FfnCounts {
  int64_t n_token_layers = 0;   // tokens times layers with counted neurons
  int64_t n_expert_layers = 0;  // tokens times layers with experts
  NeuronCounts neurons;
  ExpertCounts experts;
  int64_t n_verified = 0;             // tokens times layers with a verified predictor
  int64_t truly_active = 0;           // neurons that pass the gate, proposed or not (verify_predictor only)
  int64_t truly_active_proposed = 0;  // neurons of truly_active that were proposed
};

class FfnPass {
 public:
  /// All references and the devices' backends must outlive the pass. The pass starts in dense mode, with the
  /// neurons as the file stores them. REQUIRES: the backends have reserved FfnWorkspace::kSets sets.
  ///
  /// lender: another pass on the same backends, for a model that is at least as wide. It must outlive this
  /// pass, whose steps alternate with its own and use its buffers. This pass has no sets, so it stays in
  /// dense mode, and its layers must have whole down matrices or experts. Null: the pass has its own buffers.
  FfnPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens,
          const FfnPass* lender = nullptr);

  /// Upper bound of the buffers' bytes, for the widest predictors allowed. A double, so that absurd sizes do
  /// not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  /// Sets the mode from now on. The layouts must outlive the pass and hold the rows that the mode reads. In
  /// exact mode, a mixture skips the neurons with value zero in the experts that `experts` contains. All
  /// other FFNs of a mixture are computed with all neurons. `experts` may be null or empty.
  void use(const FfnMode& mode, const NeuronLayout& layout, const ExpertLayout* experts = nullptr);

  /// See MixturePass::share().
  void share_experts(std::span<const DeviceExperts> experts, bool host_pinned);

  /// See MixturePass::verify().
  void verify_mixtures(MixtureVerifier* verifier) { mixture_.verify(verifier); }

  /// For architectures whose predictor or router reads the layer's input x [n_tokens, d_model]: proposes
  /// neurons from x, or computes the router's logits from it. For all architectures, reports x to the
  /// observers. Call it before the layer adds its attention to x.
  void before_attention(int layer, const float* x, int n_tokens);

  /// Call begin_step() before all other calls of a step. Call end_step() after them, once the devices have
  /// finished. streams: the device computes all layers (ComputeDevice::streams_layers).
  void begin_step(bool streams = false);
  void end_step();

  /// Adds FFN(normed) to `out`; both are [n_tokens, d_model]. x: the residual stream before the FFN, which
  /// predictors read. `out` may be x. In a mixture, the CPU computes the experts that the device does not
  /// hold.
  void run(int layer, const float* normed, const float* x, int n_tokens, float* out);

  /// The counts of all calls of run() since the last reset. They include neurons only in sparse modes.
  const FfnCounts& counts() const { return counts_; }
  void reset_counts();
  /// The choices since the last reset of each layer with experts, in order. Empty if there is no device.
  std::span<const LayerExpertTotals> expert_layers() const { return expert_layers_; }
  /// Predicted mode: sets whether neurons are also proposed for a later layer, so that they can be
  /// prefetched. If so, the input of each hybrid layer (NeuronLayer::hybrid) is passed to two predictors: the
  /// layer's own, and that of the second hybrid layer after it.
  void look_ahead(bool on) { looks_ahead_ = on; }
  /// Calibrated mode: replaces the thresholds [n_layers]. They may be infinite.
  void set_thresholds(std::span<const float> thresholds);

  /// The observers of the neurons. To set a ValueObserver, call observe_values() below.
  FfnObservers& observers() { return observers_; }
  const FfnObservers& observers() const { return observers_; }
  /// Calibrated mode: sets the ValueObserver, or none if it is empty. With a device, observed steps take
  /// longer: values are copied to host memory, and the values of shared layers are computed twice.
  void observe_values(ValueObserver observer);

 private:
  LayerCall call_of(int layer, const float* normed, const float* x, int n_tokens, float* out) const;

  void run_mixture(const LayerCall& call);
  void run_sparse(const LayerCall& call);
  void run_all_neurons(const LayerCall& call);
  void run_hybrid(const LayerCall& call);
  void run_exact(const LayerCall& call);
  void run_predicted(const LayerCall& call);
  void run_calibrated(const LayerCall& call);

  void want_all(const LayerCall& call);
  void add_wanted(const LayerCall& call, const float* gates, std::optional<float> least_contribution = {});
  void verify(const LayerCall& call);
  void observe_shared(const LayerCall& call);
  void take_cpu_work();
  void take_split_work();

  Devices devices_;
  const ModelSpec& spec_;
  const Weights& weights_;
  NeuronLayout in_file_;
  const NeuronLayout* layout_;
  FfnMode mode_;
  FfnCounts counts_;
  std::vector<LayerExpertTotals> expert_layers_;  // see expert_layers()
  FfnObservers observers_;
  bool streams_ = false;  // the device computes all layers (begin_step())
  bool looks_ahead_ = false;

  const int max_tokens_;
  const bool has_sets_;
  // on_device_ is empty if there is no device. on_cpu_ is empty if the CPU computes no layers and nothing
  // requests the values of layers that the CPU and the device share.
  FfnWorkspace on_cpu_, on_device_;
  MixturePass mixture_;
  NeuronPredictor predictor_;
  SplitProduct split_;
};

}  // namespace hearth
