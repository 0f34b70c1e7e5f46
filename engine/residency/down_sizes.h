// Euclidean norms of the down columns: what a neuron's value is multiplied by to tell what it contributes.
//
// Found at load (calibrated mode) and when activity is counted. Any thread.
#pragma once

#include <vector>

#include "engine/model/weights.h"

namespace hearth {

/// sizes [d_ff] of one layer, neurons as the file numbers them; reads the whole down projection.
void down_sizes(const LayerWeights& layer, int64_t d_model, int64_t d_ff, float* sizes);

/// [n_layers, d_ff] of all layers, by n_threads threads.
std::vector<float> down_sizes(const Weights& weights, int64_t d_model, int64_t d_ff, int n_threads);

}  // namespace hearth
