// See the header.
#include "profiler/predictors/proposing.h"

#include <cmath>
#include <limits>

namespace hearth {

void ProposalCounts::add(const ProposalCounts& other) {
  n_neurons += other.n_neurons;
  n_active += other.n_active;
  n_proposed += other.n_proposed;
  n_active_proposed += other.n_active_proposed;
}

void ProposalCounts::look(const float* values, const float* logits, int64_t n, float threshold) {
  n_neurons += n;
  for (int64_t i = 0; i < n; ++i) {
    const bool active = values[i] != 0, proposed = logits[i] >= threshold;
    n_active += active ? 1 : 0;
    n_proposed += proposed ? 1 : 0;
    n_active_proposed += active && proposed ? 1 : 0;
  }
}

ProposingObserver::ProposingObserver(FloatProducts& products, std::span<const TrainedPredictor> predictors)
    : products_(products),
      predictors_(predictors),
      thresholds_(predictors.size(), -std::numeric_limits<float>::infinity()),
      counts_(predictors.size()) {}

void ProposingObserver::use(std::span<const float> thresholds) {
  thresholds_.assign(thresholds.begin(), thresholds.end());
  counts_.assign(predictors_.size(), {});
}

void ProposingObserver::input(int layer, const float* x, int n_tokens) {
  if (std::isinf(thresholds_[static_cast<size_t>(layer)])) return;
  predict_over_unit(products_, predictors_[static_cast<size_t>(layer)], x, n_tokens, hidden_, logits_);
}

void ProposingObserver::values(int layer, float* values, int n_tokens) {
  const float threshold = thresholds_[static_cast<size_t>(layer)];
  if (std::isinf(threshold)) return;
  const int64_t n = int64_t{n_tokens} * predictors_[static_cast<size_t>(layer)].net.d_ff;
  counts_[static_cast<size_t>(layer)].look(values, logits_.data(), n, threshold);
  for (int64_t i = 0; i < n; ++i) {
    if (!(logits_[static_cast<size_t>(i)] >= threshold)) values[i] = 0;
  }
}

}  // namespace hearth
