// See the header.
#include "profiler/report/charts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "profiler/report/svg.h"

namespace hearth {
namespace {

constexpr double kWidth = 640;

/// Of a layer's chart: rows thick enough to see, and a page that need not be scrolled for 80 of them.
double height_for(size_t n_layers) { return std::clamp(12.0 * static_cast<double>(n_layers), 96.0, 480.0); }

std::vector<Tick> layer_ticks(size_t n_layers) {
  std::vector<Tick> ticks;
  const size_t step = std::max<size_t>(1, (n_layers + 9) / 10);
  for (size_t i = 0; i < n_layers; i += step)
    ticks.push_back({static_cast<double>(i) + 0.5, fmt::format("{}", i)});
  return ticks;
}

Axis layers_down(size_t n_layers) {
  return {static_cast<double>(n_layers), 0, "layer", layer_ticks(n_layers)};  // the first is on top
}

std::vector<double> most_active_first(std::vector<double> shares) {
  std::sort(shares.begin(), shares.end(), std::greater<>());
  return shares;
}

int heat_class(double share) {
  const auto* const below =
      std::find_if(std::begin(kHeat), std::end(kHeat), [&](double bound) { return share > bound; });
  return static_cast<int>(below - std::begin(kHeat));
}

/// [0, 1] running sums of sorted shares, at n_points + 1 places spaced evenly.
std::vector<double> cumulative(const std::vector<double>& sorted, size_t n_points) {
  const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  std::vector<double> running(sorted.size() + 1, 0.0);
  std::partial_sum(sorted.begin(), sorted.end(), running.begin() + 1);
  std::vector<double> curve;
  for (size_t i = 0; i <= n_points; ++i) {
    curve.push_back(total > 0 ? running[sorted.size() * i / n_points] / total : 0.0);
  }
  return curve;
}

std::vector<double> all_neurons(const ReportData& data) {
  std::vector<double> all;
  for (const std::vector<double>& layer : data.activity) all.insert(all.end(), layer.begin(), layer.end());
  return most_active_first(std::move(all));
}

std::vector<Chart::Point> points_of(const std::vector<double>& curve) {
  std::vector<Chart::Point> points;
  const auto n = static_cast<double>(curve.size() - 1);
  for (size_t i = 0; i < curve.size(); ++i) points.push_back({static_cast<double>(i) / n, curve[i]});
  return points;
}

}  // namespace

std::string activity_map(const ReportData& data) {
  const size_t n_layers = data.activity.size();
  Chart chart("How often neurons are active, by layer", kWidth, height_for(n_layers),
              {0, 1, "neurons of the layer, the most active first", percent_ticks()}, layers_down(n_layers),
              false);
  for (size_t layer = 0; layer < n_layers; ++layer) {
    const std::vector<double> shares = most_active_first(data.activity[layer]);
    const auto n = static_cast<double>(shares.size());
    // Sorted, so neurons of one colour lie side by side.
    for (size_t begin = 0; begin < shares.size();) {
      const int heat = heat_class(shares[begin]);
      size_t end = begin;
      while (end < shares.size() && heat_class(shares[end]) == heat) ++end;
      const auto row = static_cast<double>(layer);
      chart.box(
          static_cast<double>(begin) / n, row, static_cast<double>(end) / n, row + 1,
          fmt::format("heat{}", heat),
          fmt::format("layer {}: {:.1f} % of its neurons are active for {}", layer,
                      100 * static_cast<double>(end - begin) / n,
                      heat == kHeatClasses - 1 ? std::string("no token")
                                               : fmt::format("{:.1f} to {:.1f} % of tokens",
                                                             100 * shares[end - 1], 100 * shares[begin])));
      begin = end;
    }
  }
  return chart.done();
}

std::string activity_curve(const ReportData& data) {
  constexpr size_t kPoints = 200;
  std::vector<double> mean(kPoints + 1, 0.0);
  for (const std::vector<double>& layer : data.activity) {
    const std::vector<double> curve = cumulative(most_active_first(layer), kPoints);
    for (size_t i = 0; i <= kPoints; ++i) mean[i] += curve[i] / static_cast<double>(data.activity.size());
  }
  Chart chart("Share of activations against share of neurons", 420, 320,
              {0, 1, "neurons, the most active first", percent_ticks()},
              {0, 1, "activations", percent_ticks()});
  chart.line({{0, 0}, {1, 1}}, "even");
  chart.line(points_of(mean), "line second");
  chart.line(points_of(cumulative(all_neurons(data), kPoints)), "line first");
  chart.dot({0.26, 0.80}, "mark",
            "PowerInfer's measurement: 26 % of the neurons make up 80 % of the activations");
  chart.text({0.26, 0.80}, "PowerInfer: 26 % make up 80 %", "strong");
  return chart.done();
}

double share_of_activations(const ReportData& data, double share) {
  const std::vector<double> all = all_neurons(data);
  const double total = std::accumulate(all.begin(), all.end(), 0.0);
  const auto n = static_cast<std::ptrdiff_t>(std::llround(share * static_cast<double>(all.size())));
  return total > 0 ? std::accumulate(all.begin(), all.begin() + n, 0.0) / total : 0;
}

std::string placement_map(const ReportData& data) {
  const size_t n_layers = data.layers.size();
  Chart chart("What of each layer the GPU has", kWidth, height_for(n_layers),
              {0, 1, "neurons of the layer", percent_ticks()}, layers_down(n_layers), false);
  for (size_t i = 0; i < n_layers; ++i) {
    const ReportLayer& layer = data.layers[i];
    const auto row = static_cast<double>(i);
    const double hot = layer.on_gpu ? layer.hot : 0, cached = layer.on_gpu ? layer.cached : 0;
    const std::string where = layer.on_gpu
                                  ? fmt::format("layer {}: {:.1f} % of its neurons hot, {:.1f} % cached{}", i,
                                                100 * hot, 100 * cached, layer.all_gates ? ", all gates" : "")
                                  : fmt::format("layer {}: on the CPU whole", i);
    chart.box(0, row, hot, row + 1, "hot", where);
    chart.box(hot, row, hot + cached, row + 1, "cached", where);
    chart.box(hot + cached, row, 1, row + 1, layer.on_gpu ? (layer.all_gates ? "gates" : "cold") : "cpu",
              where);
  }
  return chart.done();
}

std::string hits_chart(const ReportData& data) {
  const ReportHits& hits = *data.hits;
  Chart chart("Neurons that were there when they were needed, against neurons chosen", 420, 320,
              {0, 1, "neurons chosen", percent_ticks()}, {0, 1, "needed ones among them", percent_ticks()});
  chart.line({{0, 0}, {1, 1}}, "even");
  chart.line(points_of(hits.even), "line second");
  chart.line(points_of(hits.by_activity), "line first");
  const double had = hits.rates.front().hit_rate;
  if (hits.planned) chart.dot({hits.share, had}, "mark", fmt::format("the plan: {:.1f} %", 100 * had));
  return chart.done();
}

std::string predictor_chart(const ReportData& data) {
  const auto n = static_cast<double>(data.predictors.size());
  Chart chart("Recall and proposed neurons of the predictors, by layer", kWidth, 240,
              {0, n, "layer", layer_ticks(data.predictors.size())}, {0, 1, "share", percent_ticks()});
  std::vector<Chart::Point> early_recall, early_proposed;
  for (size_t i = 0; i < data.predictors.size(); ++i) {
    const ReportPredictor& predictor = data.predictors[i];
    const auto at = static_cast<double>(i);
    const std::string tip = fmt::format("layer {}: {:.1f} % of active neurons proposed, {:.1f} % of all", i,
                                        100 * predictor.recall, 100 * predictor.proposed);
    chart.box(at + 0.1, 0, at + 0.9, predictor.recall, "recall", tip);
    chart.box(at + 0.1, 0, at + 0.9, predictor.proposed, "proposed", tip);
    if (predictor.early_recall < 0) continue;
    early_recall.push_back({at + 0.5, predictor.early_recall});
    early_proposed.push_back({at + 0.5, predictor.early_proposed});
  }
  if (early_recall.size() > 1) {
    chart.line(early_recall, "line first");
    chart.line(early_proposed, "line second");
  }
  return chart.done();
}

}  // namespace hearth
