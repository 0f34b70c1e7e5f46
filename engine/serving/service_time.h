// Measures how long sequences hold a slot, and derives the retry delay for a client that found the queue
// full.
//
// The engine thread adds a duration whenever a sequence leaves its slot; HTTP threads read the mean
// (EngineStatus).
#pragma once

#include <atomic>

namespace hearth {

class ServiceTime {
 public:
  /// Engine thread. Records that a sequence held its slot for this many seconds; not negative.
  void add(double seconds);
  /// Any thread. Returns the exponentially weighted mean; 0 before the first sequence.
  double mean_seconds() const { return mean_seconds_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> mean_seconds_{0};
  bool any_ = false;  // engine thread only
};

/// Returns the Retry-After value for a client that found the queue full. It estimates the time until the
/// waiting requests have been served: mean_service_seconds * n_waiting / n_slots. The value is in whole
/// seconds, at least 1 and at most 60, because OpenAI's clients ignore longer delays.
int retry_after_seconds(double mean_service_seconds, int n_waiting, int n_slots);

}  // namespace hearth
