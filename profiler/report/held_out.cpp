// Runs the held-out text, and compares placements by their hit rates.
#include "profiler/report/held_out.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "kernels/quant/dequantize.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/predictors/observing.h"
#include "profiler/predictors/predictor_net.h"

namespace hearth {
namespace {

void dequantize(const Matrix& matrix, std::vector<float>& out) {
  const size_t bytes = row_bytes(matrix.dtype, matrix.n_cols);
  out.resize(static_cast<size_t>(matrix.n_rows * matrix.n_cols));
  for (int64_t r = 0; r < matrix.n_rows; ++r) {
    dequantize_row(matrix.dtype, matrix.data + static_cast<size_t>(r) * bytes, matrix.n_cols,
                   out.data() + r * matrix.n_cols);
  }
}

class Looker final : public NeuronObserver {
 public:
  Looker(const ModelSpec& spec, const HeldOutSettings& settings, HeldOut& found)
      : settings_(settings),
        d_model_(spec.d_model),
        d_ff_(spec.d_ff),
        pool_(settings.n_threads),
        products_(pool_, supported_isas().front()),
        found_(found) {
    const auto n_layers = static_cast<size_t>(spec.n_layers);
    found_.active.counts.assign(n_layers, std::vector<double>(static_cast<size_t>(d_ff_), 0.0));
    if (!settings.predictors.has_predictors()) return;
    found_.predictors.resize(n_layers);
    found_.ahead.resize(n_layers);
  }

  void input(int layer, const float* x, int n_tokens) override {
    if (found_.predictors.empty()) return;
    // Expand the predictor of one layer at a time, because as floats, all predictors of a large model take
    // gigabytes.
    const LayerWeights& weights = settings_.predictors.layers[static_cast<size_t>(layer)];
    net_.d_model = d_model_;
    net_.d_ff = d_ff_;
    net_.rank = static_cast<int>(weights.predictor_in.n_rows);
    dequantize(weights.predictor_in, net_.in);
    dequantize(weights.predictor_out, net_.out);
    predict(products_, net_, x, n_tokens, hidden_, logits_);
    if (layer > 0) predict(products_, net_, before_.data(), n_tokens, hidden_, ahead_);
    before_.assign(x, x + int64_t{n_tokens} * d_model_);
  }

  void values(int layer, float* values, int n_tokens) override {
    std::vector<double>& active = found_.active.counts[static_cast<size_t>(layer)];
    for (int t = 0; t < n_tokens; ++t) {
      for (int j = 0; j < d_ff_; ++j) active[static_cast<size_t>(j)] += values[int64_t{t} * d_ff_ + j] != 0;
    }
    if (found_.predictors.empty()) return;
    const int64_t n = int64_t{n_tokens} * d_ff_;
    found_.predictors[static_cast<size_t>(layer)].look(values, logits_.data(), n, settings_.threshold);
    if (layer > 0)
      found_.ahead[static_cast<size_t>(layer)].look(values, ahead_.data(), n, settings_.threshold);
  }

 private:
  const HeldOutSettings& settings_;
  const int d_model_, d_ff_;
  ThreadPool pool_;
  FloatProducts products_;
  HeldOut& found_;
  PredictorNet net_;           // for the layer that runs
  std::vector<float> before_;  // [n_tokens, d_model], the previous layer's input
  std::vector<float> hidden_, logits_, ahead_;
};

}  // namespace

HeldOut run_held_out(ModelRuntime& model, TextFeed& texts, const HeldOutSettings& settings) {
  HeldOut found;
  Looker looker(model.facts().spec, settings, found);
  const Observing observing(model, looker);
  SequenceRun run(model);
  const StepLimits limits = model.limits();
  const auto most = static_cast<size_t>(limits.n_blocks) * static_cast<size_t>(limits.block_tokens);
  const auto end = std::chrono::steady_clock::now() + settings.most_time;
  while (found.n_tokens < settings.n_tokens && std::chrono::steady_clock::now() < end) {
    const std::optional<std::string> text = texts.next();
    if (!text) break;
    if (settings.counted.contains(sha256(*text))) continue;
    std::vector<int32_t> tokens = model.facts().tokenizer.encode(*text, true, false);
    tokens.resize(std::min({tokens.size(), most, static_cast<size_t>(settings.n_tokens - found.n_tokens)}));
    if (tokens.empty()) continue;
    run.clear();
    run.feed(tokens, limits.max_tokens);
    ++found.n_texts;
    found.n_tokens += tokens.size();
    if (settings.progress) {
      const double read = static_cast<double>(found.n_tokens) / static_cast<double>(settings.n_tokens);
      settings.progress(std::min(1.0, std::max(read, texts.done())));
    }
  }
  return found;
}

namespace {

/// Points of the charts' curves.
constexpr int64_t kPoints = 50;
/// If there is no plan, placements with this share of all neurons are compared.
constexpr double kShare = 0.25;

double sum(const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); }

/// Returns the mean hit rate of n neurons that are chosen at random from these layers.
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
  std::vector<std::pair<double, size_t>> all;  // (activity, layer)
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
