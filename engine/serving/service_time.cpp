// See the header.
#include "engine/serving/service_time.h"

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

// Weight of the newest duration in the mean. With this weight, a change of load shows after about eight
// sequences, and one outlier moves the mean by an eighth of its distance from the mean. TCP smooths
// round-trip times in the same way (RFC 6298).
constexpr double kNewest = 1.0 / 8;
constexpr double kShortest = 1, kLongest = 60;

}  // namespace

void ServiceTime::add(double seconds) {
  const double mean = mean_seconds();
  mean_seconds_.store(any_ ? mean + kNewest * (seconds - mean) : seconds, std::memory_order_relaxed);
  any_ = true;
}

int retry_after_seconds(double mean_service_seconds, int n_waiting, int n_slots) {
  const double seconds = mean_service_seconds * n_waiting / std::max(1, n_slots);
  return static_cast<int>(std::clamp(std::ceil(seconds), kShortest, kLongest));
}

}  // namespace hearth
