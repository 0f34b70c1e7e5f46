// Computes the statistics from the counts of a mixture's experts.
#include "profiler/activity/expert_use.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace hearth {
namespace {

std::vector<uint32_t> hottest_first(const ActivityCounts& counts, int layer) {
  const auto begin = counts.active.begin() + static_cast<ptrdiff_t>(counts.index(layer, 0));
  std::vector<uint32_t> sorted(begin, begin + counts.d_ff);
  std::ranges::sort(sorted, std::greater());
  return sorted;
}

double sum_of(const std::vector<uint32_t>& sorted, int n) {
  return static_cast<double>(std::accumulate(sorted.begin(), sorted.begin() + n, uint64_t{0}));
}

/// Returns the mean of `of_layer` over the layers with experts. Layers without counts are skipped.
template <class OfLayer>
double mean_of_layers(const ActivityCounts& counts, const OfLayer& of_layer) {
  double sum = 0;
  int n = 0;
  for (int layer = 0; layer < counts.n_layers; ++layer) {
    if (counts.active_share(layer) == 0) continue;
    sum += of_layer(layer);
    ++n;
  }
  return n == 0 ? 0 : sum / n;
}

}  // namespace

std::vector<double> sorted_choice_shares(const ActivityCounts& counts, int layer) {
  const std::vector<uint32_t> sorted = hottest_first(counts, layer);
  const double all = sum_of(sorted, counts.d_ff);
  std::vector<double> shares;
  if (all == 0) return shares;
  for (const uint32_t n : sorted) shares.push_back(n / all);
  return shares;
}

double choices_caught(const ActivityCounts& counts, int n_hottest) {
  double caught = 0, all = 0;
  for (int layer = 0; layer < counts.n_layers; ++layer) {
    const std::vector<uint32_t> sorted = hottest_first(counts, layer);
    caught += sum_of(sorted, std::min(n_hottest, counts.d_ff));
    all += sum_of(sorted, counts.d_ff);
  }
  return all == 0 ? 0 : caught / all;
}

double mean_kept_share(const ActivityCounts& counts) {
  return mean_of_layers(counts, [&](int layer) { return counts.kept_share(layer); });
}

double mean_experts_read(const ActivityCounts& counts, int size) {
  return mean_of_layers(counts, [&](int layer) { return counts.experts_read(layer, size); });
}

double mean_experts_read_by_others(const ActivityCounts& counts, int size) {
  return mean_of_layers(counts, [&](int layer) { return counts.experts_read_by_others(layer, size); });
}

int cached_experts(const ActivityCounts& counts, double share) {
  return std::max(1, static_cast<int>(std::lround(share * counts.d_ff)));
}

}  // namespace hearth
