// A condition variable that also works while time is virtual.
//
// For threads that a simulation takes along (kernels/base/virtual_time.h). A thread that is notified in virtual time goes on
// kWakeSeconds later.
#pragma once

#include <condition_variable>
#include <stop_token>

#include "kernels/base/mutex.h"
#include "kernels/base/virtual_time.h"

namespace hearth {

class Signal {
 public:
  /// What it takes an idle core to wake and run a thread.
  static constexpr double kWakeSeconds = 20e-6;

  void notify_all() {
    if (VirtualTime* const time = VirtualTime::current()) time->notify(this, kWakeSeconds);
    changed_.notify_all();
  }

  /// Waits until holds() or a stop is asked for; returns holds(). The caller has locked `lock`, under which it is called.
  /// (Whose mutex that is, clang's analysis of locks cannot know here.)
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
