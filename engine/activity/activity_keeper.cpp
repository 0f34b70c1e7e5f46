// See the header.
#include "engine/activity/activity_keeper.h"

#include <utility>

namespace hearth {

void ActivityKeeper::begin(const ActivityCounter::Shape& shape, const CountOptions& options,
                           const Order& order) {
  const MutexLock lock(mutex_);
  keep();
  options_ = options;
  order_ = &order;
  counter_ = std::make_unique<ActivityCounter>(shape, options);
}

bool ActivityKeeper::end() {
  const MutexLock lock(mutex_);
  keep();
  return std::exchange(counter_, nullptr) != nullptr;
}

ActivityCounts ActivityKeeper::take() {
  const MutexLock lock(mutex_);
  keep();
  return std::exchange(kept_, {});
}

void ActivityKeeper::keep() {
  if (counter_) kept_.add(counter_->take().renumbered(*order_));
}

}  // namespace hearth
