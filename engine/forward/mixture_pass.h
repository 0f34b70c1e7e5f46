// Runs the FFN of a layer that is a mixture of experts: its router, the choice of experts for each token, the
// experts, and the shared expert if there is one.
//
// Owned by FfnPass; engine thread. The constructor allocates all memory. kernels/experts.h defines how
// experts are chosen and added up.
#pragma once

#include <span>

#include "engine/forward/ffn_observers.h"
#include "engine/forward/layer_call.h"
#include "engine/forward/mixture_verifier.h"
#include "engine/model/devices.h"
#include "engine/neurons/expert_layout.h"
#include "kernels/experts.h"
#include "kernels/hybrid_experts.h"

namespace hearth {

/// Buffers of mixtures in one device's memory; empty if the model has no experts.
struct MixtureWorkspace {
  MixtureWorkspace() = default;
  /// on_device: whether this is the workspace of a device that can compute experts.
  MixtureWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens, bool on_device = false);
  /// Returns the same buffers; this object must outlive them.
  MixtureWorkspace view() const;

  Buffer router;  // [max_tokens, n_experts], the router's logits
  // Used if experts do not read the layer's FFN input: what the router or the experts read.
  Buffer input;  // [max_tokens, d_model]
  // Used if the experts' sum is changed before it is added: this sum.
  Buffer sum;  // [max_tokens, d_model]
  // Used on a device, for a shared expert whose output is weighted by a gate. Otherwise empty.
  Buffer shared_logits;  // [max_tokens], its gate
  Buffer shared_rows;    // [max_tokens, d_model], its output
};

class MixturePass {
 public:
  /// All references and the devices' backends must outlive the pass. At first, all neurons of an expert are
  /// computed.
  /// lender: see FfnPass.
  MixturePass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens,
              const MixturePass* lender = nullptr);

  /// Upper bound of the buffers' bytes. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  /// From now on, skips neurons with value zero in the experts of `experts`, which must outlive the pass. If
  /// it is null or empty, computes all neurons of an expert.
  void use(const ExpertLayout* experts);

  /// Sets which experts a device holds from now on. experts: [n_layers], with slots only in layers of the
  /// device; or empty if the device holds no experts. They must outlive the pass. host_pinned: see
  /// HybridExpertLayer. The slots must have down columns exactly if zeros are skipped (use()), because adding
  /// neurons one by one rounds differently from matrix products.
  void share(std::span<const DeviceExperts> experts, bool host_pinned) {
    on_device_experts_ = experts;
    host_pinned_ = host_pinned;
  }

  /// From now on, verifies the layers of the verifier's steps that a device and the CPU share. The verifier
  /// must outlive the pass, or verify(null) must be called before.
  void verify(MixtureVerifier* verifier) { verifier_ = verifier; }

  /// For architectures whose routers read the layer's input: computes the router's logits, which run() then
  /// uses. x: the layer's input [n_tokens, d_model], in the memory of the call's backend. Call it before the
  /// layer's attention.
  void before_attention(const LayerCall& call, const float* x);

  /// Adds to call.out the results of the experts that the router chooses for each token, and of the shared
  /// expert or the dense FFN beside the experts. Reports the choice to the observers. If the layer runs on a
  /// device that holds none of its experts, the CPU chooses and computes them: the device hands over the
  /// router's logits and the experts' input together, computes the shared expert meanwhile, and adds the
  /// CPU's sum. If the device holds some of the experts, the device chooses, and both compute
  /// (HybridExperts). REQUIRES: the layer has experts.
  void run(const LayerCall& call, FfnObservers& observers, ExpertCounts& counts);

 private:
  void run_beside_dense(const LayerCall& call, FfnObservers& observers, ExpertCounts& counts);
  void run_latent(const LayerCall& call, FfnObservers& observers, ExpertCounts& counts);
  void run_experts(const LayerCall& call, const LayerCall& beside, FfnObservers& observers,
                   ExpertCounts& counts);
  void run_beside(const LayerCall& call, FfnObservers& observers);
  const float* weighted(const float* x, const ExpertChoice& choice);
  ExpertChoice unweighted(const ExpertChoice& choice);
  void compute_router(const LayerCall& call, const float* x);
  const MixtureWorkspace& work_of(const LayerCall& call) const;
  float* logits_of(const LayerCall& call) const { return work_of(call).router.floats(); }
  Router router_of(int layer) const;
  bool is_shared(const LayerCall& call) const;
  std::span<const Expert> host_experts(int layer) const;
  HybridExpertLayer shared_layer(int layer) const;
  void run_on_both(const LayerCall& call, const LayerCall& beside, FfnObservers& observers,
                   ExpertCounts& counts);
  void compute_experts(int layer, const float* x, const ExpertChoice& choice, ExpertCounts& counts);
  GatedSharedExpert run_gated_expert(const LayerCall& call);
  void compute_again(const LayerCall& call);

  Devices devices_;
  const ModelSpec& spec_;
  const Weights& weights_;
  const ExpertLayout* experts_ = nullptr;             // null: experts are computed whole
  std::span<const DeviceExperts> on_device_experts_;  // see share()
  bool host_pinned_ = false;
  MixtureVerifier* verifier_ = nullptr;
  MixtureWorkspace on_cpu_, on_device_;  // on_device_ is empty without a device
  std::vector<float> ones_;              // [max_tokens, n_used], if experts read weighted inputs
  // [max_tokens, d_model] Output of the experts, in host memory; empty if the model has no experts.
  Buffer mixed_;
};

}  // namespace hearth
