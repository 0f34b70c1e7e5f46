// The FFN of a layer that computes every neuron: dense FFNs, and shared experts of mixtures without a gate.
//
// Called by FfnPass and MixturePass; engine thread.
#pragma once

#include "engine/forward/ffn_observers.h"
#include "engine/forward/layer_call.h"

namespace hearth {

/// work.gate [n_tokens, rows of the gate] = the values of all neurons of `ffn`, act(gate) * up.
void compute_values(const LayerCall& call, const FfnNeurons& ffn);
/// compute_values() for the layer's own FFN.
inline void compute_values(const LayerCall& call) { compute_values(call, call.neurons.ffn); }

/// Like compute_values(), and reports the predictor's input and the values; the observer may set some to
/// zero.
void compute_observed_values(const LayerCall& call, FfnObservers& observers);

/// out += the FFN, with the file's own down projection: three matrix products.
/// REQUIRES: call.neurons.dense_down.weight is not null.
void run_dense_ffn(const LayerCall& call, FfnObservers& observers);

}  // namespace hearth
