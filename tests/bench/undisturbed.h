// Estimates the cost of code on a machine that does nothing else.
#pragma once

#include <algorithm>
#include <vector>

namespace hearth {

/// Returns the tenth percentile of many runs, which excludes both disturbance by other programs and the luck
/// of a single run. REQUIRES: values is not empty.
inline double undisturbed(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 10];
}

}  // namespace hearth
