// See the header.
#include "profiler/report/hit_rates.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hearth {
namespace {

/// Of the charts' curves.
constexpr int64_t kPoints = 50;
/// What is compared where no plan says how much.
constexpr double kShare = 0.25;

double sum(const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); }

/// What any n neurons of these layers have on average, of all that was needed.
double chance(const ActivityProfile& needed, int64_t n, const LayerMask& layers) {
  double all = 0, there = 0, n_there = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    all += sum(needed.counts[l]);
    if (!layers[l]) continue;
    there += sum(needed.counts[l]);
    n_there += static_cast<double>(needed.counts[l].size());
  }
  return all > 0 ? there / all * static_cast<double>(n) / n_there : 0;
}

}  // namespace

double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n) {
  double all = 0, had = 0;
  for (size_t l = 0; l < needed.counts.size(); ++l) {
    all += sum(needed.counts[l]);
    for (size_t i = 0; i < static_cast<size_t>(n[l]); ++i) {
      had += needed.counts[l][static_cast<size_t>(order[l][i])];
    }
  }
  return all > 0 ? had / all : 0;
}

std::vector<int64_t> most_active(const ActivityProfile& counted, int64_t n, const LayerMask& layers) {
  std::vector<std::pair<double, size_t>> all;  // activity, layer
  for (size_t l = 0; l < layers.size(); ++l) {
    if (!layers[l]) continue;
    for (const double count : counted.counts[l]) all.emplace_back(-count, l);
  }
  const auto end = all.begin() + std::min<ptrdiff_t>(n, static_cast<ptrdiff_t>(all.size()));
  std::partial_sort(all.begin(), end, all.end());
  std::vector<int64_t> of_layer(layers.size(), 0);
  for (auto one = all.begin(); one != end; ++one) ++of_layer[one->second];
  return of_layer;
}

std::vector<int64_t> even(int64_t n, const LayerMask& layers) {
  const int64_t n_layers = std::ranges::count(layers, true);
  int64_t one_more = n % n_layers;
  std::vector<int64_t> of_layer;
  for (const bool there : layers) of_layer.push_back(there ? n / n_layers + (one_more-- > 0 ? 1 : 0) : 0);
  return of_layer;
}

ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::optional<PlannedHot>& planned) {
  const size_t n_layers = counted.counts.size();
  const auto all = static_cast<int64_t>(n_layers * counted.counts.front().size());
  const LayerMask every(n_layers, true);
  std::vector<std::vector<int32_t>> order;
  for (size_t l = 0; l < n_layers; ++l) order.push_back(counted.hottest_first(static_cast<int>(l)));
  const auto rate = [&](const std::vector<int64_t>& n) { return hit_rate(needed, order, n); };

  ReportHits hits;
  hits.planned = planned.has_value();
  const LayerMask& layers = planned ? planned->layers : every;
  const int64_t n = planned ? std::accumulate(planned->n.begin(), planned->n.end(), int64_t{0})
                            : static_cast<int64_t>(kShare * static_cast<double>(all));
  hits.share = static_cast<double>(n) / static_cast<double>(all);
  if (planned) hits.rates.push_back({"as planned", rate(planned->n)});
  hits.rates.push_back({planned ? "the most active of these layers" : "the most active of all layers",
                        rate(most_active(counted, n, layers))});
  hits.rates.push_back({"the most active, as many of each layer", rate(even(n, layers))});
  hits.rates.push_back({"at random", chance(needed, n, layers)});
  for (int64_t i = 0; i <= kPoints; ++i) {
    const int64_t at = all * i / kPoints;
    hits.by_activity.push_back(rate(most_active(counted, at, every)));
    hits.even.push_back(rate(even(at, every)));
  }
  return hits;
}

}  // namespace hearth
