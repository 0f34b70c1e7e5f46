// Euclidean norms of the down columns. A neuron's value times the norm of its down column is the size of its
// contribution to the layer's output.
//
// Computed at load (calibrated mode) and when activity is counted. Any thread.
#pragma once

#include <vector>

#include "engine/model/weights.h"

namespace hearth {

/// Writes the norms of one layer [d_ff], in the neuron order of the file. Reads the whole down projection.
void down_sizes(const LayerWeights& layer, int64_t d_model, int64_t d_ff, float* sizes);

/// Returns the norms of all layers [n_layers, d_ff], computed by n_threads threads.
std::vector<float> down_sizes(const Weights& weights, int64_t d_model, int64_t d_ff, int n_threads);

}  // namespace hearth
