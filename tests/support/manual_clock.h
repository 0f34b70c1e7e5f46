// A steady clock that stands still until a test moves it. Any thread may read it.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>

namespace hearth::test {

class ManualClock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using time_point = std::chrono::steady_clock::time_point;

  time_point now() const { return time_point(duration(time_.load())); }
  void advance(duration by) { time_ += by.count(); }
  /// The clock function for the code under test. This object must outlive it.
  std::function<time_point()> reader() const {
    return [this] { return now(); };
  }

 private:
  // Linux's steady clock counts from boot. Starting at one second exposes code that assumes that the epoch
  // was long ago.
  std::atomic<duration::rep> time_{duration(std::chrono::seconds(1)).count()};
};

}  // namespace hearth::test
