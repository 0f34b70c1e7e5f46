// See the header.
#include "profiler/predictors/threshold_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/next_token.h"
#include "profiler/sequence_run.h"
#include "profiler/share_search.h"

namespace hearth {
namespace {

// What a layer's misses cost, and what a price comes to while it is searched for, is seen on so many windows:
// divergences of a thousand tokens are certain to some percent. What is chosen is looked at in all windows.
constexpr size_t kFewWindows = 8;
// A layer's cost is seen while its predictor misses about this share of its contributions: more than it will
// in the end, so that there is something to see, and little enough that costs stay in proportion.
constexpr double kProbeMissed = 0.1;
// The search goes over prices from the first (little is skipped) to the last in equal ratios. A price is in
// neurons' shares per unit of divergence.
constexpr double kFirstPrice = 1e4, kLastPrice = 0.1;
// Exact distributions that are kept to compare with take no more memory than this.
constexpr size_t kKeptBytes = size_t{256} << 20;
constexpr double kSure = 1.64;  // standard errors: one-sided, 95 %

/// What thresholds come to on some of the windows.
struct Look {
  double rise = 0;        // mean over windows of the loss's rise, nats a token
  double error = 0;       // its standard error, were it over all windows
  double divergence = 0;  // mean, nats a token
};

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
        n_vocab_(static_cast<size_t>(model.limits().n_vocab)),
        n_windows_(in.text.size() / static_cast<size_t>(in.n_context)),
        n_few_(std::min(kFewWindows, n_windows_)) {
    const size_t n_scored = static_cast<size_t>(in.n_context) / 2;
    const size_t n_kept =
        std::clamp<size_t>(kKeptBytes / (n_windows_ * n_vocab_ * sizeof(float)), 1, n_scored);
    keep_every_ = (n_scored + n_kept - 1) / n_kept;
    n_all_ = static_cast<double>(n_windows_ * 2 + n_few_ * (curves.size() + kShareSteps));
  }

  ThresholdChoice choose() {
    // 1. The text as it is.
    ThresholdChoice choice;
    const std::vector<float> none(curves_.size(), -std::numeric_limits<float>::infinity());
    score_exact(none);
    // 2. What each layer's misses cost.
    const std::vector<double> costs = measure_costs(none);
    // 3. As few proposals as the budget allows.
    const std::vector<int> highest = highest_steps();
    const auto thresholds_at = [&](double share) {
      const double price = kFirstPrice * std::pow(kLastPrice / kFirstPrice, share);
      return thresholds_of(cheapest_steps(curves_, costs, highest, price));
    };
    Look last;
    const auto fits = [&](double share, bool in_full) {
      last = look(thresholds_at(share), in_full ? n_windows_ : n_few_);
      const double most = std::log1p(in_.max_rise);
      // A rise seen on few windows is mostly chance.
      return last.divergence + kSure * last.error <= most && (!in_full || last.rise <= most);
    };
    const double share = largest_share(fits);
    choice.kept = share > 0 || fits(0, true);
    choice.thresholds = thresholds_at(share);
    choice.exact_perplexity = std::exp(mean_exact_);
    choice.perplexity = std::exp(mean_exact_ + last.rise);
    choice.divergence = last.divergence;
    choice.margin = kSure * last.error;
    return choice;
  }

 private:
  static std::vector<float> thresholds_of(const std::vector<int>& steps) {
    std::vector<float> thresholds;
    for (const int step : steps) thresholds.push_back(LogitCurve::threshold(step));
    return thresholds;
  }

  void advance() {
    n_done_ = std::min(n_done_ + 1, n_all_);
    tick_(n_done_ / n_all_);
  }

  /// Runs a window and calls `row` with each scored token's number, log probabilities [n_vocab] and
  /// successor.
  template <class Row>
  void score_window(size_t w, Row row) {
    const size_t n = static_cast<size_t>(in_.n_context);
    std::vector<int32_t> text(in_.text.begin() + static_cast<ptrdiff_t>(w * n),
                              in_.text.begin() + static_cast<ptrdiff_t>((w + 1) * n));
    if (in_.bos >= 0) text[0] = in_.bos;
    run_.clear();
    run_.score(std::span(text).first(n - 1), n / 2, model_.limits().max_tokens,
               [&](size_t i, std::span<const float> logits) {
                 row_.assign(logits.begin(), logits.end());
                 log_softmax(row_);
                 row(i - n / 2, std::span<const float>(row_), static_cast<size_t>(text[i + 1]));
               });
    advance();
  }

  void score_exact(const std::vector<float>& none) {
    observer_.use(none);
    double sum = 0;
    for (size_t w = 0; w < n_windows_; ++w) {
      exact_.emplace_back();
      kept_.emplace_back();
      score_window(w, [&](size_t i, std::span<const float> row, size_t next) {
        exact_[w].push_back(row[next]);
        sum -= double{row[next]} / static_cast<double>(n_windows_);
        if (i % keep_every_ == 0) kept_[w].insert(kept_[w].end(), row.begin(), row.end());
      });
    }
    mean_exact_ = sum / static_cast<double>(exact_[0].size());
  }

  /// Of the first n windows; texts are mixed, so they speak for the whole.
  Look look(const std::vector<float>& thresholds, size_t n) {
    observer_.use(thresholds);
    Look look;
    std::vector<double> rises;
    double n_compared = 0;
    for (size_t w = 0; w < n; ++w) {
      double rise = 0;
      score_window(w, [&](size_t i, std::span<const float> row, size_t next) {
        rise += double{exact_[w][i]} - double{row[next]};
        if (i % keep_every_ != 0) return;
        look.divergence += divergence(std::span(kept_[w]).subspan(i / keep_every_ * n_vocab_, n_vocab_), row);
        ++n_compared;
      });
      rises.push_back(rise / static_cast<double>(exact_[w].size()));
      look.rise += rises.back() / static_cast<double>(n);
    }
    look.divergence /= n_compared;
    double squares = 0;
    for (const double rise : rises) squares += (rise - look.rise) * (rise - look.rise);
    if (n > 1) look.error = std::sqrt(squares / static_cast<double>((n - 1) * n_windows_));
    return look;
  }

  std::vector<double> measure_costs(const std::vector<float>& none) {
    std::vector<double> costs;
    double sum = 0;
    for (size_t l = 0; l < curves_.size(); ++l) {
      const int step =
          curves_[l].highest([](const PredictorShares& shares) { return shares.missed <= kProbeMissed; });
      std::vector<float> only = none;
      only[l] = LogitCurve::threshold(step);
      const double moved = look(only, n_few_).divergence;
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
  size_t n_vocab_, n_windows_, n_few_, keep_every_ = 1;
  std::vector<std::vector<float>> exact_;  // [n_windows][scored tokens] log probability of what comes next
  std::vector<std::vector<float>> kept_;   // [n_windows][every keep_every_th of those, n_vocab]
  double mean_exact_ = 0;                  // loss
  std::vector<float> row_;                 // [n_vocab]
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
