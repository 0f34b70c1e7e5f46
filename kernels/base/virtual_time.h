// Time that passes only when it is spent: for simulating a machine that is not at hand.
//
// Normally there is none, and clocks are real. While there is one, the threads that take part have a time each, in seconds
// from 0. One of them runs at a time: the one with the least time, unless it waits for a Signal. So a simulation has one
// outcome, whatever the system's scheduler does. A thread takes part from its first call here on; code between two calls
// takes no time.
//
// The engine asks through HostClock and waits through Signal (kernels/base/signal.h); a simulated device (kernels/cuda/
// simulated_device.h) and a simulated host (profiler/simulation/) spend.
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
  /// Time is virtual while the object lives, or until end(). The constructing thread is the first that takes part. One
  /// object at a time.
  VirtualTime();
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  /// Null: time is real.
  static VirtualTime* current();

  /// The calling thread's time.
  double now();
  /// The calling thread is busy for so long. Others whose time is less run before this returns.
  void spend(double seconds);
  /// Spends until this time; nothing if it has passed.
  void wait_until(double time);
  /// Waits until notify(channel), or end().
  void block(const void* channel);
  /// Threads that wait for the channel go on, `latency` later than the caller's time.
  void notify(const void* channel, double latency);

  /// Waits, in real time, until n threads take part; the others must be waiting by then.
  void wait_for_threads(size_t n);
  /// Time is real again; threads that wait return.
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

/// The steady clock, or virtual time while there is such.
struct HostClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now();
  /// The point of this virtual time.
  static time_point at(double seconds);
};

}  // namespace hearth
