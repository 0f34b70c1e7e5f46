// Implements the histogram's sums over bins, and two bisections: one finds the threshold of one layer, the
// other finds the share for all layers.
#include "profiler/calibration/threshold_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

// The logarithms of all positive floats lie between -104 and 89. After 48 bisections, the interval that
// remains is 7e-13 long, which is far below a float's relative resolution of 6e-8.
constexpr int kBisections = 48;
constexpr double kLowestLog = -104, kHighestLog = 89;

}  // namespace

double ScoreHistogram::share_below(double threshold) const {
  double count = 0, total = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (bins_[i] == 0) continue;
    const double low = edge(i), high = i + 1 < bins_.size() ? edge(i + 1) : low;
    const double in_bin = static_cast<double>(bins_[i]);
    total += in_bin;
    // The scores of a bin are assumed to be spread evenly over it. The bins of infinity and NaN cannot be
    // divided, so they count completely or not at all.
    const double part = high > low && std::isfinite(high)
                            ? std::clamp((threshold - low) / (high - low), 0.0, 1.0)
                            : (threshold > low ? 1.0 : 0.0);
    count += part * in_bin;
  }
  return total > 0 ? count / total : 0.0;
}

double ScoreHistogram::quantile(double share) const {
  double low = kLowestLog, high = kHighestLog;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (share_below(std::exp(middle)) <= share ? low : high) = middle;
  }
  return std::exp(low);
}

std::vector<float> thresholds_for(std::span<const ScoreHistogram> layers, double share) {
  std::vector<float> thresholds(layers.size(), 0.0f);
  if (share <= 0) return thresholds;
  for (size_t l = 0; l < layers.size(); ++l) {
    thresholds[l] = static_cast<float>(
        std::min(layers[l].quantile(share), static_cast<double>(std::numeric_limits<float>::max())));
  }
  return thresholds;
}

double largest_share(const ShareJudge& within_budget) {
  double low = 0, high = 1;
  for (int i = 0; i < kShareSteps; ++i) {
    const double middle = (low + high) / 2;
    (within_budget(middle, false) ? low : high) = middle;
  }
  // The judge may have accepted too large a share, because it may stop before the end of the text. Reduce the
  // share until the whole text stays within the budget. Each reduction is twice as large as the previous one.
  for (double back = high - low; low > 0; back *= 2) {
    if (within_budget(low, true)) return low;
    low -= back;
  }
  return 0;
}

}  // namespace hearth
