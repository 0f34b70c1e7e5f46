// Draws the charts, and writes the HTML of the page.
#include "profiler/report/report_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "profiler/machine/rate_text.h"
#include "profiler/report/svg.h"

namespace hearth {
namespace {

constexpr double kWidth = 640;

/// Returns the height of a chart with a row for each layer. Rows are thick enough to see, and 80 layers fit
/// on the page without scrolling.
double height_for(size_t n_layers) { return std::clamp(12.0 * static_cast<double>(n_layers), 96.0, 480.0); }

std::vector<Tick> layer_ticks(size_t n_layers) {
  std::vector<Tick> ticks;
  const size_t step = std::max<size_t>(1, (n_layers + 9) / 10);
  for (size_t i = 0; i < n_layers; i += step)
    ticks.push_back({static_cast<double>(i) + 0.5, fmt::format("{}", i)});
  return ticks;
}

Axis layers_down(size_t n_layers) {
  return {static_cast<double>(n_layers), 0, "layer", layer_ticks(n_layers)};  // layer 0 is at the top
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

/// Returns the running sums of sorted shares, scaled to [0, 1], at n_points + 1 evenly spaced positions.
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
  const bool experts = data.experts.has_value();
  Chart chart(
      experts ? "How often experts are chosen, by layer" : "How often neurons are active, by layer", kWidth,
      height_for(n_layers),
      {0, 1,
       experts ? "experts of the layer, the hottest first" : "neurons of the layer, the most active first",
       percent_ticks()},
      layers_down(n_layers), false);
  for (size_t layer = 0; layer < n_layers; ++layer) {
    const std::vector<double> shares = most_active_first(data.activity[layer]);
    const auto n = static_cast<double>(shares.size());
    // The shares are sorted, so neurons of the same color are adjacent.
    for (size_t begin = 0; begin < shares.size();) {
      const int heat = heat_class(shares[begin]);
      size_t end = begin;
      while (end < shares.size() && heat_class(shares[end]) == heat) ++end;
      const auto row = static_cast<double>(layer);
      chart.box(static_cast<double>(begin) / n, row, static_cast<double>(end) / n, row + 1,
                fmt::format("heat{}", heat),
                fmt::format(
                    "layer {}: {:.1f} % of its {} for {}", layer, 100 * static_cast<double>(end - begin) / n,
                    experts ? "experts are chosen" : "neurons are active",
                    heat == kHeatClasses - 1 ? std::string("no token")
                                             : fmt::format("{:.1f} to {:.1f} % of tokens",
                                                           100 * shares[end - 1], 100 * shares[begin])));
      begin = end;
    }
  }
  return chart.done();
}

std::string activity_curve(const ReportData& data) {
  constexpr size_t kSteps = 200;
  std::vector<double> mean(kSteps + 1, 0.0);
  for (const std::vector<double>& layer : data.activity) {
    const std::vector<double> curve = cumulative(most_active_first(layer), kSteps);
    for (size_t i = 0; i <= kSteps; ++i) mean[i] += curve[i] / static_cast<double>(data.activity.size());
  }
  const bool experts = data.experts.has_value();
  Chart chart(
      experts ? "Share of choices against share of experts" : "Share of activations against share of neurons",
      420, 320,
      {0, 1, experts ? "experts, the hottest first" : "neurons, the most active first", percent_ticks()},
      {0, 1, experts ? "choices" : "activations", percent_ticks()});
  chart.line({{0, 0}, {1, 1}}, "even");
  chart.line(points_of(mean), "line second");
  chart.line(points_of(cumulative(all_neurons(data), kSteps)), "line first");
  if (experts) return chart.done();
  chart.dot({0.26, 0.80}, "mark", "PowerInfer: 26 % of the neurons make up 80 % of the activations");
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
  Chart chart("The part of each layer that the GPU has", kWidth, height_for(n_layers),
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

namespace {

// The content security policy keeps the page from loading or running anything, even if a model's name
// contains HTML.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { --ink: #1f2328; --soft: #59636e; --page: #fff; --line: #d8dee4; --faint: #eef1f4; --mark: #cf222e;
  --first: #0a5cad; --second: #b25e09; --hot: #c2410c; --cached: #f0a070; --gates: #cfe3f7; --cold: #e9edf1; --cpu: #b9c0c8; --ram: #5b7fb0;
  --heat0: #7f1d1d; --heat1: #b4301b; --heat2: #dd5a1e; --heat3: #f28b37; --heat4: #f9b66a; --heat5: #fcd7a5;
  --heat6: #fdefdc; --heat7: #eef1f4 }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --soft: #9198a1; --page: #0d1117; --line: #3d444d;
  --faint: #1b2129; --mark: #ff7b72; --first: #6cb6ff; --second: #f0a95a; --hot: #f0763a; --cached: #9a4a20; --gates: #1d3b5c;
  --cold: #262c34; --cpu: #4b535d; --ram: #5f86bb;
  --heat0: #ffe3c2; --heat1: #fdbd7b; --heat2: #f5923e; --heat3: #d5691f; --heat4: #a4481a; --heat5: #733418; --heat6: #452518;
  --heat7: #1b2129 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 760px; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem }
p { margin: .3rem 0 } .soft, footer { color: var(--soft) }
svg { width: 100%; height: auto; display: block; margin: .6rem 0 }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft) } svg .axis { fill: var(--ink) }
.grid { stroke: var(--faint) } .even { fill: none; stroke: var(--soft); stroke-dasharray: 4 4 }
.line { fill: none; stroke-width: 2 } .first { stroke: var(--first) } .second { stroke: var(--second) }
.mark { fill: var(--mark) }
)";

std::string swatch_rules() {
  std::string rules;
  std::vector<std::string> names = {"hot", "cached", "gates", "cold", "cpu", "ram"};
  for (int i = 0; i < kHeatClasses; ++i) names.push_back(fmt::format("heat{}", i));
  for (const std::string& name : names)
    rules += fmt::format(".{0} {{ fill: var(--{0}); background: var(--{0}) }}\n", name);
  return rules +
         R"(.recall { fill: var(--gates); background: var(--gates) } .proposed { fill: var(--hot); background: var(--hot) }
i.first { background: var(--first) } i.second { background: var(--second) } i.mark { background: var(--mark) }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; color: var(--soft); font-size: .85rem }
.key i { display: inline-block; width: .9em; height: .9em; margin-right: .4em; vertical-align: -.1em; border-radius: 2px }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
td, th { padding: .15rem .9rem .15rem 0; text-align: right; border-bottom: 1px solid var(--line); font-weight: 400 }
td { white-space: nowrap } td.words { white-space: normal }
td:first-child, th:first-child, .words { text-align: left } th { color: var(--soft) }
summary { color: var(--soft); cursor: pointer; font-size: .85rem }
.bar { display: flex; height: 1.4rem; border-radius: 3px; overflow: hidden; margin: .6rem 0 } .bar span { display: block }
</style>
)";
}

struct Key {
  std::string css_class, words;
};

std::string key_of(const std::vector<Key>& keys) {
  std::string html = R"(<div class="key">)";
  for (const Key& key : keys)
    html += fmt::format(R"(<span><i class="{}"></i>{}</span>)", key.css_class, html_escaped(key.words));
  return html + "</div>\n";
}

using Cells = std::vector<std::string>;

/// Returns an HTML table. Numbers are aligned to the right, words to the left. The first column contains
/// words; so does the last column if `words_last` is set.
std::string table_of(const Cells& heads, const std::vector<Cells>& rows, bool words_last = false) {
  const auto row_of = [&](const Cells& cells, const char* element) {
    std::string html = "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      const char* const words = words_last && i + 1 == cells.size() ? " class=\"words\"" : "";
      html += fmt::format("<{0}{1}>{2}</{0}>", element, words, html_escaped(cells[i]));
    }
    return html + "</tr>\n";
  };
  std::string html = "<table>" + row_of(heads, "th");
  for (const Cells& row : rows) html += row_of(row, "td");
  return html + "</table>\n";
}

std::string folded(const std::string& table) {
  return "<details><summary>The numbers</summary>\n" + table + "</details>\n";
}

std::string section(std::string_view title, std::string_view words = {}) {
  std::string html = fmt::format("<h2>{}</h2>\n", html_escaped(title));
  if (!words.empty()) html += fmt::format("<p>{}</p>\n", html_escaped(words));
  return html;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// ---- the page's parts, in order ----

std::string speed_part(const ReportData& data) {
  if (data.speeds.empty()) return {};
  const bool measured = data.speeds.front().measured.has_value();
  std::vector<Cells> rows;
  for (const ReportSpeed& speed : data.speeds) {
    Cells& row = rows.emplace_back(Cells{speed.what, rate_text(speed.planned)});
    if (measured) {
      const double expected = speed.expected.value_or(0), reached = speed.measured.value_or(0);
      row.insert(row.end(),
                 {rate_text(expected), rate_text(reached), expected > 0 ? percent(reached / expected) : ""});
    }
    row.push_back(speed.bound);
  }
  Cells heads = {"", "predicted"};
  if (measured) heads.insert(heads.end(), {"predicted for the run", "measured", "measured / predicted"});
  heads.push_back("limited by");
  std::string words = fmt::format("Tokens per second. Predicted for {}", data.planned_run);
  words += measured ? "; predicted and measured for a run of " + data.measured_run + "." : "; not measured.";
  if (!data.busy.empty()) words += " While the run was measured, " + data.busy + ".";
  return section("Speed", words) + table_of(heads, rows, true);
}

std::string activity_part(const ReportData& data) {
  if (data.activity.empty() || data.experts) return {};
  const double top = share_of_activations(data, 0.26);
  std::vector<Key> heat;
  for (int i = 0; i < kHeatClasses; ++i) {
    heat.push_back({fmt::format("heat{}", i), i == kHeatClasses - 1 ? "never"
                                              : i == kHeatClasses - 2
                                                  ? "less"
                                                  : fmt::format("over {:.3g} % of tokens", 100 * kHeat[i])});
  }
  std::vector<Cells> rows;
  for (size_t i = 0; i < data.activity.size(); ++i) {
    const std::vector<double>& layer = data.activity[i];
    double sum = 0, most = 0;
    size_t never = 0;
    for (const double share : layer) sum += share, most = std::max(most, share), never += share <= 0;
    const double n = static_cast<double>(std::max<size_t>(layer.size(), 1));
    rows.push_back({fmt::format("layer {}", i), percent(sum / n), percent(most),
                    percent(static_cast<double>(never) / n)});
  }
  return section("Which neurons are active", fmt::format("Counted over {} tokens: {}.",
                                                         file_error::with_commas(data.n_tokens), data.text)) +
         key_of(heat) + activity_map(data) +
         folded(table_of({"", "active on average", "most active neuron", "never active"}, rows)) +
         section("How unevenly",
                 fmt::format("The most active 26 % of the neurons make up {} of all activations here.",
                             percent(top))) +
         key_of({{"first", "all neurons of the model"},
                 {"second", "a layer's, on average"},
                 {"mark", "PowerInfer: 26 % make up 80 % (OPT-30B)"}}) +
         activity_curve(data);
}

std::string experts_part(const ReportData& data) {
  if (!data.experts) return {};
  const ReportExperts& experts = *data.experts;
  std::vector<Key> heat;
  for (int i = 0; i < kHeatClasses; ++i) {
    heat.push_back({fmt::format("heat{}", i), i == kHeatClasses - 1 ? "never"
                                              : i == kHeatClasses - 2
                                                  ? "less"
                                                  : fmt::format("over {:.3g} % of tokens", 100 * kHeat[i])});
  }
  std::vector<Cells> layers, caches, steps;
  for (size_t i = 0; i < data.activity.size(); ++i) {
    const std::vector<double>& layer = data.activity[i];
    layers.push_back({fmt::format("layer {}", i), percent(*std::ranges::max_element(layer)),
                      percent(*std::ranges::min_element(layer)), percent(experts.kept[i])});
  }
  for (const ReportExperts::Cache& cache : experts.caches) {
    caches.push_back(
        {fmt::format("the hottest {} of {}", cache.n, experts.n_experts), percent(cache.caught)});
  }
  for (const ReportExperts::Reads& reads : experts.reads) {
    const auto number = [](double n) { return n > 0 ? fmt::format("{:.1f}", n) : std::string(); };
    steps.push_back(
        {fmt::format("{}", reads.n_tokens), number(reads.of_one_text), number(reads.of_different)});
  }
  return section("Which experts are chosen", fmt::format("Counted over {} tokens: {}.",
                                                         file_error::with_commas(data.n_tokens), data.text)) +
         key_of(heat) + activity_map(data) +
         folded(table_of({"", "most chosen expert", "least chosen", "chosen again"}, layers)) +
         section("How unevenly",
                 "Share of all choices that a cache with the hottest experts of each layer would catch.") +
         table_of({"experts in the cache", "choices caught"}, caches) +
         key_of({{"first", "all experts of the model"}, {"second", "a layer's, on average"}}) +
         activity_curve(data) +
         section(
             "Tokens that follow one another",
             fmt::format("{} of a token's experts were chosen by the token before it too. Experts of a layer "
                         "that a step reads, each once:",
                         percent(experts.mean_kept))) +
         table_of({"tokens of the step", "of one text", "of different texts"}, steps);
}

std::string bytes_part(const ReportData& data) {
  if (data.bytes.empty()) return {};
  double total = 0, on_gpu = 0;
  for (const ReportBytes& part : data.bytes) {
    total += part.on_gpu + part.in_ram;
    on_gpu += part.on_gpu;
  }
  const bool has_gpu = on_gpu > 0;
  const auto row_of = [has_gpu](const std::string& what, double gpu, double ram) {
    Cells row = {what};
    if (has_gpu) row.push_back(gpu > 0 ? bytes_text(gpu) : "");
    row.push_back(ram > 0 ? bytes_text(ram) : "");
    return row;
  };
  std::vector<Cells> rows;
  for (const ReportBytes& part : data.bytes) rows.push_back(row_of(part.what, part.on_gpu, part.in_ram));
  rows.push_back(row_of("total", on_gpu, total - on_gpu));
  if (!has_gpu) return section("Memory") + table_of({"", "RAM"}, rows);
  const double share = 100 * on_gpu / total;
  return section("Memory") + table_of({"", "GPU", "RAM"}, rows) +
         fmt::format(
             R"(<div class="bar"><span class="hot" style="width:{:.2f}%"></span><span class="ram" style="width:{:.2f}%"></span></div>)",
             share, 100 - share) +
         key_of({{"hot", "GPU"}, {"ram", "RAM"}});
}

std::string layers_part(const ReportData& data) {
  if (data.layers.empty()) return {};
  std::vector<Cells> rows;
  for (size_t i = 0; i < data.layers.size(); ++i) {
    const ReportLayer& layer = data.layers[i];
    rows.push_back({fmt::format("layer {}", i), layer.on_gpu ? "GPU" : "CPU",
                    !layer.on_gpu     ? "none"
                    : layer.all_gates ? "all"
                                      : "with their neurons",
                    percent(layer.hot), percent(layer.cached)});
  }
  return key_of({{"hot", "hot: always on the GPU"},
                 {"cached", "neuron cache: on the GPU for a while"},
                 {"gates", "cold, but their gates are on the GPU"},
                 {"cold", "cold: in RAM"},
                 {"cpu", "layer computed by the CPU"}}) +
         placement_map(data) + folded(table_of({"", "attention", "gates on the GPU", "hot", "cached"}, rows));
}

std::string hits_part(const ReportData& data) {
  if (!data.hits) return {};
  const ReportHits& hits = *data.hits;
  std::vector<Cells> rows;
  for (const ReportHitRate& rate : hits.rates) rows.push_back({rate.placement, percent(rate.hit_rate)});
  std::vector<Key> keys = {{"first", "the most active of all layers"},
                           {"second", "the most active, as many of each layer"}};
  if (hits.planned) keys.push_back({"mark", "the plan"});
  const std::string chosen =
      hits.planned ? fmt::format(
                         "The GPU has {} of the neurons always or nearly always. Share of the needed neurons "
                         "that it has, and that it would have if as many neurons of the same layers were "
                         "chosen in other ways:",
                         percent(hits.share))
                   : fmt::format("Share of the needed neurons that would be among {} of all neurons:",
                                 percent(hits.share));
  return section("How often the hot neurons are the ones needed",
                 fmt::format("Measured on: {}. {}", data.held_out, chosen)) +
         table_of({"chosen", "had"}, rows) + key_of(keys) + hits_chart(data);
}

std::string predictors_part(const ReportData& data) {
  if (data.predictors.empty()) return {};
  const auto known = [](double share) { return share >= 0 ? percent(share) : ""; };
  std::vector<Cells> rows;
  for (size_t i = 0; i < data.predictors.size(); ++i) {
    const ReportPredictor& one = data.predictors[i];
    rows.push_back({fmt::format("layer {}", i), percent(one.recall), percent(one.proposed),
                    known(one.early_recall), known(one.early_proposed)});
  }
  return section("Predictors", fmt::format("Measured on: {}. Share of a layer's active neurons that its "
                                           "predictor proposes, and the same for a predictor that runs ahead "
                                           "of time with the previous layer's input, as for the prefetcher.",
                                           data.held_out)) +
         key_of({{"recall", "active neurons that are proposed"},
                 {"proposed", "neurons proposed, of all"},
                 {"first", "active ones, ahead of time"},
                 {"second", "proposed, ahead of time"}}) +
         predictor_chart(data) +
         folded(table_of({"", "recall", "proposed", "recall ahead", "proposed ahead"}, rows));
}

std::string plan_part(const ReportData& data) {
  if (data.plan.empty()) return {};
  std::vector<Cells> rows;
  for (const auto& [name, what] : data.plan) rows.push_back({name, what});
  return section("The plan") + table_of({"", ""}, rows, true);
}

std::string notes_part(const ReportData& data) {
  if (data.notes.empty()) return {};
  std::string html = section("Notes") + "<ul>\n";
  for (const std::string& note : data.notes) html += "<li>" + html_escaped(note) + "</li>\n";
  return html + "</ul>\n";
}

}  // namespace

std::string report_page(const ReportData& data) {
  std::string html(kHead);
  html += swatch_rules();
  html += fmt::format(
      "<title>{0}: Hearth report</title>\n<body>\n<h1>{0}</h1>\n<p>{1}</p>\n<p class=\"soft\">{2}</p>\n",
      html_escaped(data.model), html_escaped(data.facts), html_escaped(data.machine));
  html += speed_part(data);
  html += bytes_part(data);
  html += layers_part(data);
  html += hits_part(data);
  html += activity_part(data);
  html += experts_part(data);
  html += predictors_part(data);
  html += plan_part(data);
  html += notes_part(data);
  return html + fmt::format("<footer><p>{}</p></footer>\n</body>\n</html>\n", html_escaped(data.made));
}

}  // namespace hearth
