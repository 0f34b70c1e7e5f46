// Computes log-softmax and Kullback-Leibler divergences, with sums in double precision.
#include "profiler/calibration/next_token.h"

#include <algorithm>
#include <cmath>

namespace hearth {

void log_softmax(std::span<float> logits) {
  const float peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - peak));
  const float shift = peak + static_cast<float>(std::log(sum));
  for (float& logit : logits) logit -= shift;
}

double divergence(std::span<const float> p, std::span<const float> q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    sum += std::exp(static_cast<double>(p[i])) * (static_cast<double>(p[i]) - q[i]);
  return sum;
}

double divergence_of_rows(std::span<const float> p, std::span<const float> q, size_t n_vocab) {
  double sum = 0;
  for (size_t at = 0; at < p.size(); at += n_vocab) {
    sum += divergence(p.subspan(at, n_vocab), q.subspan(at, n_vocab));
  }
  return sum;
}

std::vector<size_t> spread(size_t n, size_t size) {
  n = std::min(n, size);
  std::vector<size_t> at;
  for (size_t i = 0; i < n; ++i) at.push_back((2 * i + 1) * size / (2 * n));
  return at;
}

}  // namespace hearth
