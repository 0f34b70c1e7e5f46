// Tracks what drafts have saved and cost so far, so that a wrong estimate cannot slow answers down for long.
// Drafts continue as long as they pay for themselves; otherwise they may use one hundredth of the time to
// find out whether that has changed.
//
// Each source of drafts has one ledger. The unit is the duration of a step without drafts, so the constants
// suit fast and slow models alike. Owned by Speculation; engine thread.
#pragma once

#include <algorithm>

namespace hearth {

class DraftLedger {
 public:
  /// Both in steps. first: what drafts may lose before they have saved anything. most: upper limit of the
  /// balance, so that savings from copied text cannot pay for minutes of losses on other text.
  DraftLedger(double first, double most) : most_(most), balance_(first) {}

  /// Whether drafts may spend the time of this many steps now. Returns false even for 0 once drafts have lost
  /// all the time that they were given.
  bool allows(double n_steps) const { return balance_ > 0 && balance_ >= n_steps; }
  /// Records that time has passed, with or without drafts.
  void passed(double n_steps) { add(kShare * n_steps); }
  /// Adds what drafts have saved; negative: what they have cost.
  void saved(double n_steps) { add(n_steps); }

 private:
  // The share of all time that drafts may lose.
  static constexpr double kShare = 0.01;
  void add(double n_steps) { balance_ = std::min(balance_ + n_steps, most_); }

  double most_;
  double balance_;
};

}  // namespace hearth
