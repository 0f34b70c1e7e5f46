// Euclidean norms of the down columns. A neuron's value times this norm is the size of its contribution.
//
// Computed at load (calibrated mode) and when activity is counted. Any thread.
#pragma once

#include <vector>

#include "engine/model/weights.h"

namespace hearth {

/// Writes one layer's sizes [d_ff], in the file's neuron order. Reads the whole down projection.
void down_sizes(const LayerWeights& layer, int64_t d_model, int64_t d_ff, float* sizes);

/// Returns [n_layers, d_ff] for all layers, computed by n_threads threads.
std::vector<float> down_sizes(const Weights& weights, int64_t d_model, int64_t d_ff, int n_threads);

}  // namespace hearth
