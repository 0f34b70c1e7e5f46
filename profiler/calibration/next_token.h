// Next-token distributions, compared: how far skipping neurons moves what a model says.
//
// Used by calibration and by the training of predictors. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hearth {

/// log of the softmax of logits, in place.
void log_softmax(std::span<float> logits);

/// Kullback-Leibler divergence of q from p, both log probabilities.
double divergence(std::span<const float> p, std::span<const float> q);

/// The sum of the divergences row by row, of n_vocab each.
double divergence_of_rows(std::span<const float> p, std::span<const float> q, size_t n_vocab);

/// Indices of n of [0, size), spread evenly; all of them where there are fewer.
std::vector<size_t> spread(size_t n, size_t size);

}  // namespace hearth
