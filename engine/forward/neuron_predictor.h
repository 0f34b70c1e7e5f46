// Predicts which neurons a layer's tokens will want, with the predictors that a model file may contain
// (PowerInfer: Song et al. 2024).
//
// Owned by FfnPass, in predicted mode; engine thread.
#pragma once

#include <optional>

#include "engine/forward/layer_call.h"
#include "kernels/hybrid_ffn.h"

namespace hearth {

class NeuronPredictor {
 public:
  /// Both must outlive it.
  NeuronPredictor(const ModelSpec& spec, const Weights& weights) : spec_(spec), weights_(weights) {}

  /// Sets the layout, which must outlive it, and the least logit for which a neuron is proposed. Call it
  /// before the others.
  void use(const NeuronLayout& layout, float threshold) {
    layout_ = &layout;
    threshold_ = threshold;
  }

  /// work.wanted = the neurons that the layer's predictor proposes for `input` [n_tokens, d_model], in the
  /// backend's memory. Overwrites work.hidden and work.logits.
  void propose(const LayerCall& call, const float* input) const;

  /// Applies the predictor of the hybrid layer after the next to call.x. nullopt: there is no such layer, or
  /// it has no neuron cache. That layer's own input would give nearly the same proposals, because the
  /// residual stream changes slowly from layer to layer. Using call.x leaves time to copy the neurons: the
  /// time until the CPU has computed its share of the next layer. `call` and this object must outlive the
  /// result, which fills work.proposed.
  std::optional<Proposal> look_ahead(const LayerCall& call) const;

 private:
  void predict(const LayerCall& call, int layer, const float* input, NeuronSetId set) const;

  const ModelSpec& spec_;
  const Weights& weights_;
  const NeuronLayout* layout_ = nullptr;
  float threshold_ = 0;
};

}  // namespace hearth
