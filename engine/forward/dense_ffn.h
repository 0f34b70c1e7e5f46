// Computes the FFN of a layer with all its neurons: the FFN of a dense layer, or a mixture's shared expert if
// its output is not weighted by a gate.
//
// Called by FfnPass and MixturePass; engine thread.
#pragma once

#include "engine/forward/ffn_observers.h"
#include "engine/forward/layer_call.h"

namespace hearth {

/// work.gate [n_tokens, rows of ffn.gate] = act(gate) * up, the values of all neurons of `ffn`.
void compute_values(const LayerCall& call, const FfnNeurons& ffn);
/// compute_values() for the layer's own FFN.
inline void compute_values(const LayerCall& call) { compute_values(call, call.neurons.ffn); }

/// Like compute_values(), but also reports the predictor's input and the values to the observers, which may
/// set values to zero.
void compute_observed_values(const LayerCall& call, FfnObservers& observers);

/// out += the result of the FFN, computed as three matrix products with the file's own down projection.
/// REQUIRES: call.neurons.dense_down.weight is not null.
void run_dense_ffn(const LayerCall& call, FfnObservers& observers);

}  // namespace hearth
