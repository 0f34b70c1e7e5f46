// Tracks how much time drafts have saved and cost so far, so that a wrong estimate cannot slow answers down
// for long. Drafting continues as long as it saves at least as much time as it costs. Otherwise drafts may
// use one hundredth of all time, to find out whether they save time again.
//
// Each source of drafts has its own ledger. Times are in units of one step without drafts, so the constants
// suit fast and slow models alike. Owned by Speculation; engine thread.
#pragma once

#include <algorithm>

namespace hearth {

class DraftLedger {
 public:
  /// Both parameters are times, in steps. first: the initial balance, which is the time that drafts may lose
  /// before they have saved any. most: upper limit of the balance, so that savings from copied text cannot
  /// pay for minutes of losses on other text.
  DraftLedger(double first, double most) : most_(most), balance_(first) {}

  /// Whether drafts may spend the time of this many steps now. If the balance is not positive, returns false
  /// even for 0.
  bool allows(double n_steps) const { return balance_ > 0 && balance_ >= n_steps; }
  /// Records that time has passed, with or without drafts.
  void passed(double n_steps) { add(kShare * n_steps); }
  /// Adds the time that drafts have saved, in steps; negative if they cost time.
  void saved(double n_steps) { add(n_steps); }

 private:
  // The share of all time that drafts may lose.
  static constexpr double kShare = 0.01;
  void add(double n_steps) { balance_ = std::min(balance_ + n_steps, most_); }

  double most_;
  double balance_;
};

}  // namespace hearth
