// See the header.
#include "profiler/report/held_out.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

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
    // One layer's predictor at a time: all of a large model's are gigabytes as floats.
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
  PredictorNet net_;           // of the layer that runs
  std::vector<float> before_;  // [n_tokens, d_model], the input of the layer before
  std::vector<float> hidden_, logits_, ahead_;
};

}  // namespace

HeldOut run_held_out(ModelRuntime& model, TextFeed& texts, const HeldOutSettings& settings) {
  HeldOut found;
  Looker looker(model.spec(), settings, found);
  const Observing observing(model, looker);
  SequenceRun run(model);
  const StepLimits limits = model.limits();
  const auto most = static_cast<size_t>(limits.n_blocks) * static_cast<size_t>(limits.block_tokens);
  const auto end = std::chrono::steady_clock::now() + settings.most_time;
  while (found.n_tokens < settings.n_tokens && std::chrono::steady_clock::now() < end) {
    const std::optional<std::string> text = texts.next();
    if (!text) break;
    if (settings.counted.contains(sha256(*text))) continue;
    std::vector<int32_t> tokens = model.tokenizer().encode(*text, true, false);
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

}  // namespace hearth
