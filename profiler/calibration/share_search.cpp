// Bisection, then a check of what it found.
#include "profiler/calibration/share_search.h"

#include <cmath>

namespace hearth {

double largest_share(const ShareJudge& within_budget) {
  double low = 0, high = 1;
  for (int i = 0; i < kShareSteps; ++i) {
    const double middle = (low + high) / 2;
    (within_budget(middle, false) ? low : high) = middle;
  }
  // A judge that was not quite sure may have let too much through: then by growing steps back.
  for (double back = high - low; low > 0; back *= 2) {
    if (within_budget(low, true)) return low;
    low -= back;
  }
  return 0;
}

}  // namespace hearth
