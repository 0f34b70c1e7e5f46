// Simulated time, which passes only when a thread spends it. Used to simulate a machine that is not at hand.
//
// Normally no VirtualTime exists, and clocks are real. While one exists, each thread that takes part has its
// own time, in seconds from 0. Only one of these threads runs at any moment: the one with the smallest time
// among those that do not wait for a Signal. So the outcome of a simulation does not depend on the system's
// scheduler. A thread takes part from its first call of this class on. Code between two calls takes no
// virtual time.
//
// The engine reads the time through HostClock and waits through Signal (kernels/base/signal.h). A simulated
// device (kernels/cuda/ops/simulated_device.h) and a simulated host (profiler/simulation/) spend time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace hearth {

class VirtualTime {
 public:
  /// Time is virtual until the object is destroyed or end() is called. The thread that creates the object is
  /// the first to take part. At most one object exists at a time.
  VirtualTime();
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  /// Returns the existing object, or null if time is real.
  static VirtualTime* current();

  /// The calling thread's time.
  double now();
  /// Adds `seconds` to the calling thread's time. Threads with a smaller time run before this returns.
  void spend(double seconds);
  /// Spends time until `time`; does nothing if `time` has passed.
  void wait_until(double time);
  /// Waits until notify(channel) or end() is called.
  void block(const void* channel);
  /// Wakes the threads that wait for the channel; they continue `latency` seconds after the caller's time.
  void notify(const void* channel, double latency);

  /// Waits, in real time, until n threads take part. Afterward all threads except for the caller are waiting.
  void wait_for_threads(size_t n);
  /// Makes time real again; waiting threads return.
  void end();

 private:
  struct Thread {
    double time = 0;
    const void* waits_for = nullptr;
    std::condition_variable turn;
  };

  Thread& self(std::unique_lock<std::mutex>& lock);
  void pass_on(std::unique_lock<std::mutex>& lock, Thread& me);

  std::mutex mutex_;
  std::condition_variable joined_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Thread* running_ = nullptr;
  bool ended_ = false;
};

/// The steady clock, or virtual time while a VirtualTime exists.
struct HostClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now();
  /// Converts a virtual time in seconds to a time point.
  static time_point at(double seconds);
};

}  // namespace hearth
