// Implements LogitCurve.
#include "profiler/predictors/logit_curve.h"

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

double share(double part, double whole, double of_nothing) { return whole > 0 ? part / whole : of_nothing; }

}  // namespace

LogitCurve::LogitCurve() : bins_(kSteps + 1) {}

void LogitCurve::add(float logit, float contribution) {
  at_least_.clear();
  // The number of thresholds that the logit reaches. NaN counts as reaching all thresholds, as in
  // select_neurons().
  const float steps = std::floor(logit * 16) + 1 + kSteps / 2;
  const int bin = !(steps < kSteps) ? kSteps : std::max(0, static_cast<int>(std::max(steps, 0.0f)));
  Bin& to = bins_[static_cast<size_t>(bin)];
  if (contribution > 0) {
    ++to.n_active;
    to.squares += double{contribution} * double{contribution};
  } else {
    ++to.n_inactive;
  }
}

void LogitCurve::add(const LogitCurve& other) {
  at_least_.clear();
  for (size_t b = 0; b < bins_.size(); ++b) {
    bins_[b].n_active += other.bins_[b].n_active;
    bins_[b].n_inactive += other.bins_[b].n_inactive;
    bins_[b].squares += other.bins_[b].squares;
  }
}

void LogitCurve::sum_up() const {
  at_least_ = bins_;
  for (size_t b = at_least_.size() - 1; b-- > 0;) {
    at_least_[b].n_active += at_least_[b + 1].n_active;
    at_least_[b].n_inactive += at_least_[b + 1].n_inactive;
    at_least_[b].squares += at_least_[b + 1].squares;
  }
}

int64_t LogitCurve::n_neurons() const {
  if (at_least_.empty()) sum_up();
  return at_least_[0].n_active + at_least_[0].n_inactive;
}

double LogitCurve::mean_square() const {
  const double n = static_cast<double>(n_neurons());
  return share(at_least_[0].squares, n, 0);
}

PredictorShares LogitCurve::at(int step) const {
  if (at_least_.empty()) sum_up();
  const Bin &all = at_least_[0], &found = at_least_[static_cast<size_t>(step) + 1];
  const double n_active = static_cast<double>(all.n_active), n_inactive = static_cast<double>(all.n_inactive);
  PredictorShares shares;
  shares.active = share(n_active, n_active + n_inactive, 0);
  shares.proposed = share(static_cast<double>(found.n_active + found.n_inactive), n_active + n_inactive, 0);
  shares.recall = share(static_cast<double>(found.n_active), n_active, 1);
  shares.false_positives = share(static_cast<double>(found.n_inactive), n_inactive, 0);
  shares.missed = all.squares > 0 ? std::max(0.0, 1 - found.squares / all.squares) : 0.0;
  return shares;
}

int LogitCurve::highest(const std::function<bool(const PredictorShares&)>& fits) const {
  // Invariant: `fits` holds at `low` or at no step, and holds at no step from `high` on.
  int low = 0, high = kSteps;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (fits(at(middle)) ? low : high) = middle;
  }
  return low;
}

}  // namespace hearth
