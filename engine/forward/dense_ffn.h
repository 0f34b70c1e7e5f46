// Computes the FFN of a layer with all its neurons: the FFN of a dense layer, or a mixture's shared expert if
// its output is not weighted by a gate.
//
// Called by FfnPass and MixturePass; engine thread.
#pragma once

#include "engine/forward/ffn_observers.h"
#include "engine/forward/layer_call.h"

namespace hearth {

/// Computes the values of all neurons of `ffn`, act(gate) * up, into work.gate [n_tokens, rows of ffn.gate].
void compute_values(const LayerCall& call, const FfnNeurons& ffn);
/// compute_values() for the layer's own FFN.
inline void compute_values(const LayerCall& call) { compute_values(call, call.neurons.ffn); }

/// Like compute_values(), but also reports the predictor's input and the values to the observers, which may
/// set values to zero.
void compute_observed_values(const LayerCall& call, FfnObservers& observers);

/// Computes the FFN with products of whole matrices, and adds the result to call.out. The down projection is
/// used as stored in the file. REQUIRES: call.neurons.dense_down.weight is not null.
void run_dense_ffn(const LayerCall& call, FfnObservers& observers);

}  // namespace hearth
