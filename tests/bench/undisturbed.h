// What code costs while the machine does nothing else.
#pragma once

#include <algorithm>
#include <vector>

namespace hearth {

/// The tenth percentile of many runs: without what other programs added, and without the luck of a single run. REQUIRES:
/// values is not empty.
inline double undisturbed(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 10];
}

}  // namespace hearth
