// Implements calibrate(): the stages of a calibration.
#include "profiler/calibration/calibrate.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "profiler/activity/sequence_run.h"
#include "profiler/bench/perplexity.h"
#include "profiler/calibration/next_token.h"
#include "profiler/calibration/threshold_search.h"

namespace hearth {
namespace {

// The number of windows on which scores are gathered: 8,192 tokens at the usual context, which gives millions
// of scores per layer.
constexpr size_t kScoreWindows = 16;
// A share is accepted or rejected before all windows are scored, but after at least kSureWindows of them, if
// the mean difference and the budget differ by more than kSureErrors standard errors.
constexpr double kSureErrors = 4;
constexpr size_t kSureWindows = 8;

/// The mean difference per scored token between the scores of the same windows with two sets of thresholds,
/// and the standard error of this mean.
struct Difference {
  double mean = 0, error = 0;
};

class Calibrator {
 public:
  Calibrator(ModelRuntime& model, const CalibrateInputs& in,
             const std::function<void(double, std::string_view)>& progress)
      : model_(model),
        in_(in),
        progress_(progress),
        run_(model),
        chunk_(std::min(model.limits().max_tokens, model.observation().max_counted_tokens())),
        n_layers_(static_cast<size_t>(model.facts().spec.n_layers)),
        n_text_(in.text.size() / window_tokens()),
        n_held_out_(in.held_out.size() / window_tokens()),
        histograms_(n_layers_) {
    // Estimate how many windows will be scored. Each window of the text is scored with all neurons, in each
    // step of the search, and in the final check. Each window of the held-out text is scored with all neurons
    // and with the thresholds.
    n_windows_left_ = static_cast<double>(n_text_ + (kShareSteps + 1) * n_text_ + 2 * n_held_out_);
  }

  CalibrateResult run() {
    // 1. Score the text with every neuron, and gather the sizes of the neurons' contributions.
    use(std::vector<float>(n_layers_, 0.0f));
    dense_text_ = score_dense_text();
    // 2. Find the largest share that the budget allows.
    double calibrated_nll = 0;
    const double share = largest_share([&](double candidate, bool in_full) {
      use(thresholds_for(histograms_, candidate));
      return within_budget(in_full, calibrated_nll);
    });
    // 3. Measure the cost of that share on the held-out text, which the search did not use.
    CalibrateResult result;
    result.thresholds = thresholds_for(histograms_, share);
    result.text.dense = perplexity(dense_text_);
    result.text.calibrated = share > 0 ? calibrated_nll : result.text.dense;
    measure_held_out(result);
    return result;
  }

 private:
  size_t window_tokens() const { return static_cast<size_t>(in_.n_context); }

  void use(std::vector<float> thresholds) { model_.observation().set_thresholds(thresholds); }

  WindowScore score(std::span<const int32_t> text, size_t window, std::string_view what) {
    const WindowScore result =
        score_window(run_, text.subspan(window * window_tokens(), window_tokens()), in_.bos, chunk_);
    advance(what);
    return result;
  }

  void advance(std::string_view what) {
    n_windows_done_ += 1;
    n_windows_left_ = std::max(n_windows_left_ - 1, 0.0);
    if (progress_) progress_(n_windows_done_ / (n_windows_done_ + n_windows_left_), what);
  }

  static double perplexity(std::span<const WindowScore> scores) {
    double sum = 0, n = 0;
    for (const WindowScore& score : scores) sum += score.sum, n += static_cast<double>(score.n_scored);
    return std::exp(sum / n);
  }

  std::vector<WindowScore> score_dense_text() {
    const size_t d_ff = static_cast<size_t>(model_.facts().spec.d_ff);
    const std::vector<size_t> gathered = spread(kScoreWindows, n_text_);
    std::vector<WindowScore> scores;
    for (size_t w = 0; w < n_text_; ++w) {
      if (std::ranges::binary_search(gathered, w)) {
        model_.observation().observe_values(
            [&](int layer, const float* values, const float* down_sizes, int n_tokens) {
              ScoreHistogram& histogram = histograms_[static_cast<size_t>(layer)];
              for (size_t i = 0; i < static_cast<size_t>(n_tokens) * d_ff; ++i) {
                histogram.add(std::fabs(values[i]) * down_sizes[i % d_ff]);
              }
            });
      }
      scores.push_back(score(in_.text, w, "the text as it is"));
      model_.observation().observe_values({});
    }
    if (!std::isfinite(perplexity(scores))) {
      throw std::runtime_error(
          model_.facts().file.path().string() +
          ": its perplexity on the text is not a number; the file is damaged: download or convert it again.");
    }
    return scores;
  }

  static Difference difference(std::span<const WindowScore> from, std::span<const WindowScore> to) {
    double sum = 0, squares = 0;
    const double n = static_cast<double>(to.size());
    for (size_t w = 0; w < to.size(); ++w) {
      const double per_token = (to[w].sum - from[w].sum) / static_cast<double>(to[w].n_scored);
      sum += per_token;
      squares += per_token * per_token;
    }
    const double mean = sum / n;
    return {mean, n > 1 ? std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1)) : 0.0};
  }

  /// Scores the text with the current thresholds, and returns whether perplexity stays within the budget.
  /// Windows that are far apart are scored one after the other, so that the first few windows represent the
  /// whole text.
  bool within_budget(bool in_full, double& calibrated_perplexity) {
    const double limit = std::log1p(in_.budget);
    const double left_after = n_windows_left_ - static_cast<double>(n_text_);
    const size_t stride = std::max<size_t>(1, n_text_ / kSureWindows);
    std::vector<WindowScore> dense, calibrated;
    for (size_t first = 0; first < stride; ++first) {
      for (size_t w = first; w < n_text_; w += stride) {
        dense.push_back(dense_text_[w]);
        calibrated.push_back(score(in_.text, w, "how much can be skipped"));
        if (in_full || calibrated.size() < kSureWindows) continue;
        const Difference d = difference(dense, calibrated);
        if (std::abs(d.mean - limit) <= kSureErrors * d.error) continue;
        n_windows_left_ = std::max(left_after, 0.0);
        return d.mean < limit;
      }
    }
    calibrated_perplexity = perplexity(calibrated);
    return calibrated_perplexity <= perplexity(dense) * (1 + in_.budget);
  }

  void measure_held_out(CalibrateResult& result) {
    const auto score_all = [&](const std::vector<float>& thresholds) {
      use(thresholds);
      std::vector<WindowScore> scores;
      for (size_t w = 0; w < n_held_out_; ++w) scores.push_back(score(in_.held_out, w, "the held-out text"));
      return scores;
    };
    const std::vector<WindowScore> dense = score_all(std::vector<float>(n_layers_, 0.0f));
    model_.observation().count_activity();
    model_.observation().reset_activity();
    const std::vector<WindowScore> calibrated = score_all(result.thresholds);
    result.held_out = {perplexity(dense), perplexity(calibrated)};
    result.rise_error =
        difference(dense, calibrated).error * result.held_out.calibrated / result.held_out.dense;
    result.activity = model_.observation().activity();

    const std::vector<uint32_t> hits = model_.observation().take_activity().active;
    const size_t d_ff = hits.size() / n_layers_;
    const double looks = static_cast<double>(result.activity.n_tokens) * static_cast<double>(d_ff);
    for (size_t l = 0; l < n_layers_; ++l) {
      double active = 0;
      for (size_t j = 0; j < d_ff; ++j) active += hits[l * d_ff + j];
      result.skipped.push_back(1 - active / looks);
    }
  }

  ModelRuntime& model_;
  const CalibrateInputs& in_;
  const std::function<void(double, std::string_view)>& progress_;
  SequenceRun run_;
  const int chunk_;  // tokens per step, limited to what counting activity allows
  size_t n_layers_, n_text_, n_held_out_;
  std::vector<ScoreHistogram> histograms_;  // [n_layers]
  std::vector<WindowScore> dense_text_;
  double n_windows_done_ = 0, n_windows_left_ = 0;
};

}  // namespace

CalibrateResult calibrate(ModelRuntime& model, const CalibrateInputs& inputs,
                          const std::function<void(double, std::string_view)>& progress) {
  return Calibrator(model, inputs, progress).run();
}

}  // namespace hearth
