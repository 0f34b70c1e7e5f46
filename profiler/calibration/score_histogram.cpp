// Sums over bins, and bisection of what grows with the threshold.
#include "profiler/calibration/score_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

// Any threshold a float can be lies between e^-104 and e^89; half of 2^-40 of that range is below a float's
// resolution.
constexpr int kBisections = 48;
constexpr double kLowestLog = -104, kHighestLog = 89;

/// exp(x) of the largest x in [low, high] for which share(exp(x)) <= wanted, to rounding.
template <typename Share>
double bisect(double low, double high, double wanted, Share share) {
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (share(std::exp(middle)) <= wanted ? low : high) = middle;
  }
  return std::exp(low);
}

}  // namespace

ScoreHistogram::Skipped ScoreHistogram::below(double threshold) const {
  Skipped skipped;
  double count = 0, total = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    const Bin& bin = bins_[i];
    if (bin.count == 0) continue;
    const double low = edge(i), high = i + 1 < bins_.size() ? edge(i + 1) : low;
    total += static_cast<double>(bin.count);
    // Within a bin scores are taken as spread evenly. The bins of infinity and of no number have no width.
    const double part = high > low && std::isfinite(high)
                            ? std::clamp((threshold - low) / (high - low), 0.0, 1.0)
                            : (threshold > low ? 1.0 : 0.0);
    count += part * static_cast<double>(bin.count);
    skipped.energy += part > 0 ? part * bin.energy : 0.0;
  }
  skipped.share = total > 0 ? count / total : 0.0;
  return skipped;
}

double ScoreHistogram::quantile(double share) const {
  return bisect(kLowestLog, kHighestLog, share, [this](double threshold) { return below(threshold).share; });
}

std::vector<float> thresholds_for(std::span<const ScoreHistogram> layers, std::span<const double> weights,
                                  double share) {
  std::vector<float> thresholds(layers.size(), 0.0f);
  if (share <= 0) return thresholds;
  const auto threshold_of = [&](size_t layer, double cost) { return std::sqrt(cost / weights[layer]); };
  const auto share_at = [&](double cost) {
    double sum = 0;
    for (size_t l = 0; l < layers.size(); ++l) sum += layers[l].below(threshold_of(l, cost)).share;
    return sum / static_cast<double>(layers.size());
  };
  const auto [lightest, heaviest] = std::ranges::minmax_element(weights);
  const double cost =
      bisect(2 * kLowestLog + std::log(*lightest), 2 * kHighestLog + std::log(*heaviest), share, share_at);
  for (size_t l = 0; l < layers.size(); ++l) {
    thresholds[l] = static_cast<float>(
        std::min(threshold_of(l, cost), static_cast<double>(std::numeric_limits<float>::max())));
  }
  return thresholds;
}

}  // namespace hearth
