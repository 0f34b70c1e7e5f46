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

/// n in all, as many in each layer as can be.
std::vector<int64_t> even(int64_t n, size_t n_layers) {
  std::vector<int64_t> of_layer;
  const auto layers = static_cast<int64_t>(n_layers);
  for (int64_t l = 0; l < layers; ++l) of_layer.push_back(n / layers + (l < n % layers ? 1 : 0));
  return of_layer;
}

}  // namespace

double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n) {
  double all = 0, had = 0;
  for (size_t l = 0; l < needed.counts.size(); ++l) {
    all = std::accumulate(needed.counts[l].begin(), needed.counts[l].end(), all);
    for (int64_t i = 0; i < n[l]; ++i)
      had += needed.counts[l][static_cast<size_t>(order[l][static_cast<size_t>(i)])];
  }
  return all > 0 ? had / all : 0;
}

std::vector<int64_t> most_active_of_all(const ActivityProfile& counted, int64_t n) {
  std::vector<std::pair<double, size_t>> all;  // activity, layer
  for (size_t l = 0; l < counted.counts.size(); ++l) {
    for (const double count : counted.counts[l]) all.emplace_back(-count, l);
  }
  const auto end = all.begin() + std::min<ptrdiff_t>(n, static_cast<ptrdiff_t>(all.size()));
  std::partial_sort(all.begin(), end, all.end());
  std::vector<int64_t> of_layer(counted.counts.size(), 0);
  for (auto one = all.begin(); one != end; ++one) ++of_layer[one->second];
  return of_layer;
}

ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::vector<int64_t>& planned) {
  const size_t n_layers = counted.counts.size();
  const auto all = static_cast<int64_t>(n_layers * counted.counts.front().size());
  std::vector<std::vector<int32_t>> order;
  for (size_t l = 0; l < n_layers; ++l) order.push_back(counted.hottest_first(static_cast<int>(l)));

  ReportHits hits;
  int64_t n = std::accumulate(planned.begin(), planned.end(), int64_t{0});
  if (n == 0) n = static_cast<int64_t>(kShare * static_cast<double>(all));
  hits.share = static_cast<double>(n) / static_cast<double>(all);
  hits.planned = !planned.empty();
  if (hits.planned) hits.rates.push_back({"as planned", hit_rate(needed, order, planned)});
  hits.rates.push_back(
      {"the most active of all layers", hit_rate(needed, order, most_active_of_all(counted, n))});
  hits.rates.push_back(
      {"the most active, as many of each layer", hit_rate(needed, order, even(n, n_layers))});
  hits.rates.push_back({"at random", hits.share});
  for (int64_t i = 0; i <= kPoints; ++i) {
    const int64_t at = all * i / kPoints;
    hits.by_activity.push_back(hit_rate(needed, order, most_active_of_all(counted, at)));
    hits.even.push_back(hit_rate(needed, order, even(at, n_layers)));
  }
  return hits;
}

}  // namespace hearth
