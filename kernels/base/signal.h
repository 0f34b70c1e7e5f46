// A condition variable that also works while time is virtual.
//
// Used by threads that may take part in a simulation (kernels/base/virtual_time.h). In virtual time, a
// notified thread continues kWakeSeconds later.
#pragma once

#include <condition_variable>
#include <stop_token>

#include "kernels/base/mutex.h"
#include "kernels/base/virtual_time.h"

namespace hearth {

class Signal {
 public:
  /// The time that an idle core takes to wake up and run a thread.
  static constexpr double kWakeSeconds = 20e-6;

  void notify_all() {
    if (VirtualTime* const time = VirtualTime::current()) time->notify(this, kWakeSeconds);
    changed_.notify_all();
  }

  /// Waits until holds() is true or a stop is requested; returns holds(). The caller must have locked `lock`,
  /// and holds() is called with it locked. Clang's lock analysis is off because it cannot know which mutex
  /// `lock` holds.
  template <class Lock, class Holds>
  HEARTH_THREAD_ATTRIBUTE(no_thread_safety_analysis)
  bool wait(Lock& lock, const std::stop_token& stop, const Holds& holds) {
    while (VirtualTime* const time = VirtualTime::current()) {
      if (holds()) return true;
      lock.unlock();
      time->block(this);
      lock.lock();
    }
    return changed_.wait(lock, stop, holds);
  }

 private:
  std::condition_variable_any changed_;
};

}  // namespace hearth
