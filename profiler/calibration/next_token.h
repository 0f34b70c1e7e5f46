// Compares next-token distributions, to measure how much skipping neurons changes a model's predictions.
//
// Used by calibration and by the training of predictors. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hearth {

/// Replaces logits by the logarithm of their softmax.
void log_softmax(std::span<float> logits);

/// Kullback-Leibler divergence of q from p, both given as log-probabilities.
double divergence(std::span<const float> p, std::span<const float> q);

/// The sum of the divergences of all rows; each row has n_vocab values.
double divergence_of_rows(std::span<const float> p, std::span<const float> q, size_t n_vocab);

/// Returns n indices that are spread evenly over [0, size), or all indices if size is smaller than n.
std::vector<size_t> spread(size_t n, size_t size);

}  // namespace hearth
