// What was counted of a model's neurons, through all the places that they come to lie in.
//
// Owned by ModelRuntime. A counter counts neurons in the order of one layout; this keeps what it has counted
// by the file's numbers when the layout goes, and lets other threads take it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/activity/activity_counter.h"
#include "kernels/mutex.h"

namespace hearth {

class ActivityKeeper {
 public:
  using Order = std::vector<std::vector<int32_t>>;

  /// Counts from now on, in neurons that lie in `order` (empty: the file's), which stays until end(). Between
  /// steps.
  void begin(const ActivityCounter::Shape& shape, const CountOptions& options, const Order& order);
  /// No more. Between steps; returns whether anything was counted, so that it can begin anew.
  bool end();

  /// Null: nothing is counted. Engine thread.
  ActivityCounter* counter() const { return counter_.get(); }
  const CountOptions& options() const { return options_; }

  /// What was counted since the last call, neurons as the file numbers them; nothing counted: empty. Any
  /// thread.
  ActivityCounts take();

 private:
  void keep() HEARTH_REQUIRES(mutex_);

  CountOptions options_;
  Mutex mutex_;  // held by whoever changes what follows, or reads it beside the engine thread
  std::unique_ptr<ActivityCounter> counter_;
  const Order* order_ HEARTH_GUARDED_BY(mutex_) = nullptr;
  ActivityCounts kept_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
