// What drafts have saved and cost so far, so that a wrong estimate can never slow answers down for long: drafts go on as long
// as they pay for themselves. If they do not, they may use one hundredth of the time to find out whether that has changed.
//
// Each source of drafts has one. The unit is the time of a step without drafts, which makes the numbers right for fast and slow models. Owned by
// Speculation; engine thread.
#pragma once

#include <algorithm>

namespace hearth {

class DraftLedger {
 public:
  /// Both in steps. first: what drafts may lose before they have saved anything. most: savings beyond this count for nothing,
  /// so that drafts of another kind of text do not lose for minutes what copied text has saved.
  DraftLedger(double first, double most) : most_(most), balance_(first) {}

  /// Whether so many steps' worth of time may be spent now. Even 0 is too much if drafts have lost all they were given.
  bool allows(double n_steps) const { return balance_ > 0 && balance_ >= n_steps; }
  /// Time has passed, with drafts or without.
  void passed(double n_steps) { add(kShare * n_steps); }
  /// What drafts have saved; less than 0: what they have cost.
  void saved(double n_steps) { add(n_steps); }

 private:
  // The share of all time that drafts may lose.
  static constexpr double kShare = 0.01;
  void add(double n_steps) { balance_ = std::min(balance_ + n_steps, most_); }

  double most_;
  double balance_;
};

}  // namespace hearth
