// See the header.
#include "profiler/predictors/threshold_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/next_token.h"
#include "profiler/perplexity.h"
#include "profiler/sequence_run.h"
#include "profiler/share_search.h"

namespace hearth {
namespace {

// What a layer's misses cost is seen at the ends of so many windows; see calibrate.cpp.
constexpr size_t kProbeWindows = 4, kProbeRows = 32;
// ... while its predictor misses about this share of its contributions: more than it will in the end, so that
// there is something to see, and little enough that costs stay in proportion.
constexpr double kProbeMissed = 0.1;
// The search goes over prices from the first (little is skipped) to the last in equal ratios. A price is in
// neurons' shares per unit of divergence.
constexpr double kFirstPrice = 1e4, kLastPrice = 0.1;

class Chooser {
 public:
  Chooser(ModelRuntime& model, ProposingObserver& observer, std::span<const LogitCurve> curves,
          const ThresholdInputs& in, const std::function<void(double)>& tick)
      : model_(model),
        observer_(observer),
        curves_(curves),
        in_(in),
        tick_(tick),
        run_(model),
        n_windows_(in.text.size() / static_cast<size_t>(in.n_context)) {
    const double probes = static_cast<double>(std::min(kProbeWindows, n_windows_) * (curves.size() + 1));
    n_all_ = probes + static_cast<double>(n_windows_) * (kShareSteps + 2);
  }

  ThresholdChoice choose() {
    // 1. The text as it is.
    ThresholdChoice choice;
    const std::vector<float> none(curves_.size(), -std::numeric_limits<float>::infinity());
    choice.exact_perplexity = perplexity(none);
    // 2. What each layer's misses cost.
    const std::vector<double> costs = measure_costs(none);
    // 3. As few proposals as the budget allows.
    const std::vector<int> highest = highest_steps();
    const auto thresholds_at = [&](double share) {
      const double price = kFirstPrice * std::pow(kLastPrice / kFirstPrice, share);
      return thresholds_of(cheapest_steps(curves_, costs, highest, price));
    };
    const double most = choice.exact_perplexity * (1 + in_.max_rise);
    const double share = largest_share([&](double candidate, bool) {
      choice.perplexity = perplexity(thresholds_at(candidate));
      return choice.perplexity <= most;
    });
    choice.thresholds = thresholds_at(share);
    if (share == 0) choice.perplexity = perplexity(choice.thresholds);
    return choice;
  }

 private:
  static std::vector<float> thresholds_of(const std::vector<int>& steps) {
    std::vector<float> thresholds;
    for (const int step : steps) thresholds.push_back(LogitCurve::threshold(step));
    return thresholds;
  }

  std::span<const int32_t> window(size_t i) const {
    const size_t n = static_cast<size_t>(in_.n_context);
    return in_.text.subspan(i * n, n);
  }

  void advance() {
    n_done_ = std::min(n_done_ + 1, n_all_);
    tick_(n_done_ / n_all_);
  }

  double perplexity(const std::vector<float>& thresholds) {
    observer_.use(thresholds);
    double sum = 0, n = 0;
    for (size_t w = 0; w < n_windows_; ++w) {
      const WindowScore score = score_window(run_, window(w), in_.bos, model_.limits().max_tokens);
      sum += score.sum;
      n += static_cast<double>(score.n_scored);
      advance();
    }
    return std::exp(sum / n);
  }

  /// Log probabilities [rows, n_vocab] at the ends of the probe windows.
  std::vector<float> probe(const std::vector<float>& thresholds) {
    observer_.use(thresholds);
    const size_t n_vocab = static_cast<size_t>(model_.limits().n_vocab);
    std::vector<float> out;
    for (const size_t w : spread(kProbeWindows, n_windows_)) {
      std::vector<int32_t> text(window(w).begin(), window(w).end());
      if (in_.bos >= 0) text[0] = in_.bos;
      run_.clear();
      run_.score(text, text.size() - std::min(kProbeRows, text.size()), model_.limits().max_tokens,
                 [&](size_t, std::span<const float> logits) {
                   out.insert(out.end(), logits.begin(), logits.end());
                   log_softmax(std::span(out).last(n_vocab));
                 });
      advance();
    }
    return out;
  }

  std::vector<double> measure_costs(const std::vector<float>& none) {
    const size_t n_vocab = static_cast<size_t>(model_.limits().n_vocab);
    const std::vector<float> exact = probe(none);
    const double n_rows = static_cast<double>(exact.size()) / static_cast<double>(n_vocab);
    std::vector<double> costs;
    double sum = 0;
    for (size_t l = 0; l < curves_.size(); ++l) {
      const int step =
          curves_[l].highest([](const PredictorShares& shares) { return shares.missed <= kProbeMissed; });
      std::vector<float> only = none;
      only[l] = LogitCurve::threshold(step);
      const double moved = divergence_of_rows(exact, probe(only), n_vocab) / n_rows;
      costs.push_back(std::max(moved, 0.0) / std::max(curves_[l].at(step).missed, 1e-6));
      sum += costs.back();
    }
    // What was seen as nothing is only small.
    const double least = std::max(sum / static_cast<double>(costs.size()) * 1e-2, 1e-9);
    for (double& cost : costs) cost = std::max(cost, least);
    return costs;
  }

  /// Where a layer has the wanted recall at few enough false positives, it keeps that.
  std::vector<int> highest_steps() const {
    std::vector<int> highest;
    for (const LogitCurve& curve : curves_) {
      const int step =
          curve.highest([&](const PredictorShares& shares) { return shares.recall >= in_.recall; });
      const bool kept = curve.at(step).false_positives <= in_.false_positives;
      highest.push_back(kept ? step : LogitCurve::kSteps - 1);
    }
    return highest;
  }

  ModelRuntime& model_;
  ProposingObserver& observer_;
  std::span<const LogitCurve> curves_;
  const ThresholdInputs& in_;
  const std::function<void(double)>& tick_;
  SequenceRun run_;
  size_t n_windows_;
  double n_done_ = 0, n_all_ = 1;
};

}  // namespace

std::vector<int> cheapest_steps(std::span<const LogitCurve> curves, std::span<const double> costs,
                                std::span<const int> highest, double price) {
  std::vector<int> steps;
  for (size_t l = 0; l < curves.size(); ++l) {
    int best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int step = 0; step <= highest[l]; ++step) {
      const PredictorShares shares = curves[l].at(step);
      const double cost = shares.proposed + price * costs[l] * shares.missed;
      if (cost <= least) {  // of equals the highest: nothing is proposed for nothing
        least = cost;
        best = step;
      }
    }
    steps.push_back(best);
  }
  return steps;
}

ThresholdChoice choose_thresholds(ModelRuntime& model, ProposingObserver& observer,
                                  std::span<const LogitCurve> curves, const ThresholdInputs& inputs,
                                  const std::function<void(double)>& tick) {
  return Chooser(model, observer, curves, inputs, tick).choose();
}

}  // namespace hearth
