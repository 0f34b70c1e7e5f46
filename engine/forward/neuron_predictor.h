// Predicts which neurons the tokens of a layer will need, with the predictors that a model file may contain
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

  /// Sets the layout, which must outlive this object, and the minimum logit for which a neuron is proposed.
  /// Call it before the other functions.
  void use(const NeuronLayout& layout, float threshold) {
    layout_ = &layout;
    threshold_ = threshold;
  }

  /// Sets work.wanted to the neurons that the layer's predictor proposes for `input` [n_tokens, d_model],
  /// which is in the backend's memory. Overwrites work.hidden and work.logits.
  void propose(const LayerCall& call, const float* input) const;

  /// Predicts the neurons of the second hybrid layer after this one, from call.x. Returns nullopt if there is
  /// no such layer or if it has no neuron cache. The residual stream changes slowly from layer to layer, so
  /// the later layer's own input would give nearly the same proposals. But call.x is known earlier, so the
  /// neurons can be copied while the CPU computes its share of this layer and of the next hybrid layer. The
  /// result's function fills work.proposed when it is called; `call` and this object must outlive the result.
  std::optional<Proposal> look_ahead(const LayerCall& call) const;

 private:
  void predict(const LayerCall& call, int layer, const float* input, NeuronSetId set) const;

  const ModelSpec& spec_;
  const Weights& weights_;
  const NeuronLayout* layout_ = nullptr;
  float threshold_ = 0;
};

}  // namespace hearth
