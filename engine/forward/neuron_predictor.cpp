// See the header.
#include "engine/forward/neuron_predictor.h"

#include <array>

namespace hearth {

/// Puts the neurons of `layer` whose logit reaches the threshold into `set`. The logits are predictor_out
/// relu(predictor_in input).
void NeuronPredictor::predict(const LayerCall& call, int layer, const float* input, NeuronSetId set) const {
  const Matrix &in = weights_.layers[static_cast<size_t>(layer)].predictor_in,
               &out = layout_->layer(layer).predictor_out;
  float *hidden = call.work.hidden.floats(), *logits = call.work.logits.floats();
  call.backend.matmul(input, call.n_tokens, std::array{product({in}, hidden)});
  call.backend.gated_activation({Activation::kRelu}, hidden, nullptr, call.n_tokens * in.n_rows, hidden);
  call.backend.matmul(hidden, call.n_tokens, std::array{product({out}, logits)});
  call.backend.select_neurons(logits, nullptr, call.n_tokens, spec_.d_ff, threshold_, set);
}

void NeuronPredictor::propose(const LayerCall& call, const float* input) const {
  predict(call, call.layer, input, call.work.wanted);
}

std::optional<Proposal> NeuronPredictor::look_ahead(const LayerCall& call) const {
  const HybridLayer* const next = layout_->next_hybrid(call.layer);
  const HybridLayer* const after = next == nullptr ? nullptr : layout_->next_hybrid(next->layer);
  if (after == nullptr || !after->has_cache()) return {};
  return Proposal{after->layer, call.work.proposed,
                  [this, &call] {  // small enough to need no heap allocation
                    const int layer = layout_->next_hybrid(layout_->next_hybrid(call.layer)->layer)->layer;
                    predict(call, layer, call.x, call.work.proposed);
                  }};
}

}  // namespace hearth
