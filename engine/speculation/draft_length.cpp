// See the header.
#include "engine/speculation/draft_length.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace hearth {
namespace {

// The measured cost of a step size is forgotten after this many steps without a new measurement, because the
// machine's load and the length of texts change. The size may then be tried again. So a size that is too slow
// wastes at most one step in this many.
constexpr int kForgottenAfter = 512;
// Weight of the newest measurement in the mean. A step that the system interrupted counts as at most twice
// the mean.
constexpr double kNewestCost = 1.0 / 8;
constexpr double kOutlier = 2;
// Drafts are used only if the estimated speedup is at least this, because times and acceptance shares are
// estimates.
constexpr double kLeastGain = 1.10;

}  // namespace

void StepCosts::add(int n_tokens, double seconds) {
  if (n_tokens < 1 || n_tokens > kMostTokens) return;
  const int smallest = next_known(0, 1);
  for (int n = smallest + 1; n <= kMostTokens; ++n) {
    Cost& cost = costs_[static_cast<size_t>(n)];
    if (cost.n_measured > 0 && ++cost.age > kForgottenAfter) cost = {};
  }
  Cost& cost = costs_[static_cast<size_t>(n_tokens)];
  if (cost.n_measured > 0) seconds = std::clamp(seconds, cost.seconds / kOutlier, cost.seconds * kOutlier);
  cost.n_measured = std::min(cost.n_measured + 1, 1 << 20);
  cost.age = 0;
  cost.seconds += std::max(kNewestCost, 1.0 / cost.n_measured) * (seconds - cost.seconds);
}

// Returns the nearest measured step size above (direction 1) or below (direction -1) n_tokens. If there is
// none, returns kMostTokens + 1 (direction 1) or 0 (direction -1).
int StepCosts::next_known(int n_tokens, int direction) const {
  int n = n_tokens + direction;
  while (n > 0 && n <= kMostTokens && costs_[static_cast<size_t>(n)].n_measured == 0) n += direction;
  return n;
}

double StepCosts::seconds(int n_tokens) const {
  const auto known = [this](int n) { return costs_[static_cast<size_t>(n)].seconds; };
  n_tokens = std::min(n_tokens, kMostTokens);
  const int below = next_known(n_tokens + 1, -1), above = next_known(n_tokens - 1, 1);
  assert(below > 0 || above <= kMostTokens);
  if (below == n_tokens || above > kMostTokens) return known(below);
  if (below == 0) return known(above);
  const double along = static_cast<double>(n_tokens - below) / (above - below);
  return known(below) + along * (known(above) - known(below));
}

int StepCosts::most_tokens() const { return std::min(2 * next_known(kMostTokens + 1, -1), kMostTokens); }

void Acceptance::add(int n_right, bool wrong, double memory) {
  const int n = n_right + (wrong ? 1 : 0);
  const double fade = std::pow(1 - 1 / memory, n);
  right_ = right_ * fade + n_right;
  tried_ = tried_ * fade + n;
}

double choose_lengths(const StepCosts& costs, int n_decoding, int n_more, std::span<DraftChoice> drafts,
                      ModelSeconds model) {
  for (DraftChoice& draft : drafts) draft.n_computed = 0;
  const int most = std::min(costs.most_tokens(), n_decoding + n_more);
  if (n_decoding < 1 || most <= n_decoding) return 1;

  // Add one token at a time to the draft whose next token is most likely to be accepted. A draft's later
  // tokens are never likelier than its earlier ones, so this finds the best drafts for every step size.
  const double without = n_decoding / costs.seconds(n_decoding);
  double best = without * kLeastGain, expected = n_decoding;
  const auto gain = [](const DraftChoice& draft) {
    return draft.n_computed < draft.n_offered ? std::pow(draft.share, draft.n_computed + 1) : 0.0;
  };
  int n_modeled = 0;  // length of the longest draft by the model, in tokens
  std::vector<int> best_lengths(drafts.size(), 0);
  for (int n_tokens = n_decoding + 1; n_tokens <= most; ++n_tokens) {
    const auto next = std::ranges::max_element(drafts, {}, gain);
    if (next == drafts.end() || gain(*next) <= 0) break;
    expected += gain(*next);
    ++next->n_computed;
    if (next->modeled) n_modeled = std::max(n_modeled, next->n_computed);
    // Use only a few step sizes. Then each size is measured often, and a GPU records few steps, because it
    // records one for each size.
    if (!std::has_single_bit(static_cast<unsigned>(n_tokens - n_decoding + 1))) continue;
    const double drafting = n_modeled > 0 ? model.first + (n_modeled - 1) * model.each : 0.0;
    const double speed = expected / (costs.seconds(n_tokens) + drafting);
    if (speed <= best) continue;
    best = speed;
    std::ranges::transform(drafts, best_lengths.begin(), &DraftChoice::n_computed);
  }
  for (size_t i = 0; i < drafts.size(); ++i) drafts[i].n_computed = best_lengths[i];
  const bool any = std::ranges::any_of(best_lengths, [](int length) { return length > 0; });
  return any ? best / without : 1;
}

}  // namespace hearth
