// See the header.
#include "engine/forward/layer_call.h"

#include <algorithm>

namespace hearth {
namespace {

int64_t max_rank(const Weights& weights) {
  int64_t rank = 0;
  for (const LayerWeights& layer : weights.layers) rank = std::max(rank, layer.predictor_in.n_rows);
  return rank;
}

}  // namespace

FfnWorkspace::FfnWorkspace(Memory& memory, const ModelSpec& spec, const Weights& weights, int max_tokens)
    : gate(floats(memory, max_tokens, spec.widest_ffn())),
      up(floats(memory, spec.gated ? max_tokens : 0, spec.widest_ffn())),
      hidden(floats(memory, max_tokens, max_rank(weights))),
      logits(floats(memory, max_rank(weights) > 0 ? max_tokens : 0, spec.d_ff)) {}

FfnWorkspace FfnWorkspace::view() const {
  FfnWorkspace out;
  out.gate = view_of(gate);
  out.up = view_of(up);
  out.hidden = view_of(hidden);
  out.logits = view_of(logits);
  return out;
}

void FfnWorkspace::make_sets(Backend& backend) {
  for (NeuronSetId* set : {&wanted, &proposed, &truly_active}) *set = backend.make_set();
}

}  // namespace hearth
