// Implements choose_thresholds() and cheapest_steps().
#include "profiler/predictors/threshold_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/activity/sequence_run.h"
#include "profiler/calibration/next_token.h"
#include "profiler/calibration/threshold_search.h"

namespace hearth {
namespace {

// The cost of a layer's misses is measured on windows with this many tokens in total. With more tokens, the
// measurement of all layers would take too long. Half of the tokens are scored, and the divergence over 500
// scored tokens is accurate to a tenth.
constexpr size_t kProbeTokens = 1024;
// At least this number of tokens is run before the search may decide early, without running all windows,
// whether the thresholds of one price keep the budget.
constexpr size_t kFewTokens = 4096;
constexpr double kClear = 3;  // distance from the budget for an early decision, in standard errors
// A layer's cost is measured at a threshold at which its predictor misses about this share of the
// contributions. The share is larger than the final thresholds will miss, so that its effect can be measured,
// but small enough that the cost is proportional to the share.
constexpr double kProbeMissed = 0.03;
// The price of misses: how large a share of the neurons may be proposed in addition, to reduce the divergence
// by one nat per token. The higher the price, the fewer neurons are skipped. The search bisects the range
// from kFirstPrice to kLastPrice on a logarithmic scale.
constexpr double kFirstPrice = 1e4, kLastPrice = 0.1;
// The maximum memory, in bytes, for the exact distributions that results are compared with.
constexpr size_t kKeptBytes = size_t{256} << 20;
// Thresholds are chosen for a recall above the wanted recall. This share of the misses that the wanted recall
// allows is kept in reserve, because another text may have a quarter more misses.
constexpr double kRecallMargin = 0.4;
constexpr double kSure = 1.64;  // standard errors: one-sided, 95 %

/// The measured effect of thresholds on some windows, in nats per token.
class Look {
 public:
  void add(double rise, double divergence) {
    ++n_;
    rise_ += rise;
    squares_ += rise * rise;
    divergence_ += divergence;
  }
  size_t n() const { return n_; }
  double rise() const { return rise_ / static_cast<double>(n_); }
  double divergence() const { return divergence_ / static_cast<double>(n_); }
  /// Returns the standard error of a rise that was measured on n windows.
  double error(size_t n) const {
    const double seen = static_cast<double>(n_);
    const double variance = n_ > 1 ? (squares_ - rise_ * rise_ / seen) / (seen - 1) : 0;
    return std::sqrt(std::max(variance, 0.0) / static_cast<double>(n));
  }

 private:
  size_t n_ = 0;
  double rise_ = 0, squares_ = 0, divergence_ = 0;
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
        n_windows_(in.text.size() / static_cast<size_t>(in.n_context)) {
    const size_t n_scored = static_cast<size_t>(in.n_context) / 2;
    const size_t n_kept =
        std::clamp<size_t>(kKeptBytes / (n_windows_ * n_vocab_ * sizeof(float)), 1, n_scored);
    keep_every_ = (n_scored + n_kept - 1) / n_kept;
    // The total work, in windows: exact scoring, the final evaluation, the measurement of each layer's cost,
    // and the search. Each step of the search counts as half of the windows, because most steps stop early.
    n_all_ =
        static_cast<double>(n_windows_ * (2 + kShareSteps / 2) + windows_of(kProbeTokens) * curves.size());
  }

  ThresholdChoice choose() {
    // 1. Score the text with exact results.
    ThresholdChoice choice;
    const std::vector<float> none(curves_.size(), -std::numeric_limits<float>::infinity());
    score_exact(none);
    // 2. Measure the cost of each layer's misses.
    const std::vector<double> costs = measure_costs(none);
    // 3. Choose as few proposals as the budget allows.
    const std::vector<int> highest = highest_steps();
    const auto thresholds_at = [&](double share) {
      const double price = kFirstPrice * std::pow(kLastPrice / kFirstPrice, share);
      return thresholds_of(cheapest_steps(curves_, costs, highest, price));
    };
    Look last;
    const auto fits = [&](double share, bool in_full) {
      last = look(thresholds_at(share), [&](const Look& so_far) {
        return !in_full && so_far.n() >= windows_of(kFewTokens) &&
               std::abs(over(so_far)) > kClear * so_far.error(so_far.n());
      });
      return over(last) <= 0;
    };
    const double share = largest_share(fits);
    choice.kept = share > 0 || fits(0, true);
    choice.thresholds = thresholds_at(share);
    choice.exact_perplexity = std::exp(mean_exact_);
    choice.perplexity = std::exp(mean_exact_ + last.rise());
    choice.divergence = last.divergence();
    choice.margin = margin(last);
    return choice;
  }

 private:
  static std::vector<float> thresholds_of(const std::vector<int>& steps) {
    std::vector<float> thresholds;
    for (const int step : steps) thresholds.push_back(LogitCurve::threshold(step));
    return thresholds;
  }

  /// Returns how many windows contain n_tokens tokens in total, but at least one and at most all windows.
  size_t windows_of(size_t n_tokens) const {
    return std::clamp<size_t>(n_tokens / static_cast<size_t>(in_.n_context), 1, n_windows_);
  }

  double margin(const Look& look) const { return kSure * look.error(n_windows_); }

  /// Returns by how much the effect of the thresholds, plus its margin, exceeds the budget; negative if the
  /// budget is kept.
  double over(const Look& look) const {
    return std::max(look.rise(), look.divergence()) + margin(look) - std::log1p(in_.max_rise);
  }

  void advance() {
    n_done_ = std::min(n_done_ + 1, n_all_);
    tick_(n_done_ / n_all_);
  }

  /// Runs a window. For each scored position, calls `row` with three arguments: the index among the window's
  /// scored positions, the log-probabilities [n_vocab] of the next token, and the next token of the text.
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
      kept_.emplace_back().reserve((static_cast<size_t>(in_.n_context) / 2 + keep_every_ - 1) / keep_every_ *
                                   n_vocab_);
      score_window(w, [&](size_t i, std::span<const float> row, size_t next) {
        exact_[w].push_back(row[next]);
        sum -= double{row[next]} / static_cast<double>(n_windows_);
        if (i % keep_every_ == 0) kept_[w].insert(kept_[w].end(), row.begin(), row.end());
      });
    }
    mean_exact_ = sum / static_cast<double>(exact_[0].size());
  }

  /// Evaluates windows until `enough` holds or all windows are done. The windows of all texts are mixed, so
  /// the first windows represent all texts.
  Look look(const std::vector<float>& thresholds, const std::function<bool(const Look&)>& enough) {
    observer_.use(thresholds);
    Look look;
    for (size_t w = 0; w < n_windows_ && !enough(look); ++w) {
      double rise = 0, moved = 0;
      score_window(w, [&](size_t i, std::span<const float> row, size_t next) {
        rise += double{exact_[w][i]} - double{row[next]};
        if (i % keep_every_ != 0) return;
        moved += divergence(std::span(kept_[w]).subspan(i / keep_every_ * n_vocab_, n_vocab_), row);
      });
      const double n_compared = static_cast<double>(kept_[w].size() / n_vocab_);
      look.add(rise / static_cast<double>(exact_[w].size()), moved / n_compared);
    }
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
      const double moved =
          look(only, [&](const Look& so_far) { return so_far.n() >= windows_of(kProbeTokens); }).divergence();
      costs.push_back(std::max(moved, 0.0) / std::max(curves_[l].at(step).missed, 1e-6));
      sum += costs.back();
    }
    // A layer's cost may be measured as zero or less, but its true cost is above zero.
    const double least = std::max(sum / static_cast<double>(costs.size()) * 1e-2, 1e-9);
    for (double& cost : costs) cost = std::max(cost, least);
    return costs;
  }

  /// Returns the highest step that each layer's threshold may have. If a layer can reach the wanted recall
  /// without too many false positives, its threshold must keep this recall. Because other texts may have a
  /// lower recall than this text, the limit is then set for a higher recall, as far as the allowed false
  /// positives permit. Layers that cannot do so have no limit.
  std::vector<int> highest_steps() const {
    const double wanted = in_.recall + kRecallMargin * (1 - in_.recall);
    std::vector<int> highest;
    for (const LogitCurve& curve : curves_) {
      const int with_more =
          curve.highest([&](const PredictorShares& shares) { return shares.recall >= wanted; });
      const int too_many = curve.highest(
          [&](const PredictorShares& shares) { return shares.false_positives > in_.false_positives; });
      const int step = std::min(std::max(with_more, too_many + 1), LogitCurve::kSteps - 1);
      const bool kept = curve.at(step).recall >= in_.recall;
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
  size_t n_vocab_, n_windows_, keep_every_ = 1;
  std::vector<std::vector<float>> exact_;  // [n_windows][scored tokens]: log-probability of the next token
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
      if (cost <= least) {  // of equal costs, take the highest step, which proposes the fewest neurons
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
