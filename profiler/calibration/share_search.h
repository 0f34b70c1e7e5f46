// The search for the largest share that may be skipped.
//
// Called by calibrate.cpp, whose judge runs a model over a text; pure otherwise.
#pragma once

#include <functional>

namespace hearth {

/// Whether skipping `share` keeps within the budget. In full: by everything there is to look at; else the
/// judge may stop looking once it is as good as sure.
using ShareJudge = std::function<bool(double share, bool in_full)>;

inline constexpr int kShareSteps = 8;  // bisections of [0, 1): to 0.4 % of all neurons

/// The largest share found within the budget, judged in full; 0, which is not judged, if there is none. The
/// cost is taken to rise with the share; where it does not, a smaller share than the largest may be found.
double largest_share(const ShareJudge& within_budget);

}  // namespace hearth
