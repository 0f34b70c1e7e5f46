// A RowCopier that copies nothing and is controlled by a test.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/row_copier.h"

namespace hearth::testing {

/// State that a test and its copier share; it outlives both.
class CopierControl {
 public:
  /// Called for every start(), on the Prefetcher's thread.
  std::function<void(int layer, std::span<const RowChange>)> on_start;
  std::function<void(int layer)> on_gate;
  double seconds_per_bundle = 1e-6;

  /// From this call on, the copier's wait() does not return until let_through() is called.
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void let_through() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  /// Waits until the copier, while held, has begun to copy.
  void await_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_; });
  }

 private:
  friend class TestCopier;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, waiting_ = false;
};

class TestCopier final : public RowCopier {
 public:
  explicit TestCopier(CopierControl& control) : control_(control) {}

  void gate(int layer, void* /*stream*/) override {
    if (control_.on_gate) control_.on_gate(layer);
  }
  void start(int layer, std::span<const RowChange> moves) override {
    if (control_.on_start) control_.on_start(layer, moves);
    n_ += static_cast<int64_t>(moves.size());
  }
  Copied wait() override {
    std::unique_lock lock(control_.mutex_);
    control_.waiting_ = true;
    control_.changed_.notify_all();
    control_.changed_.wait(lock, [&] { return !control_.held_; });
    control_.waiting_ = false;
    const int64_t n = std::exchange(n_, 0);
    return {100 * n, static_cast<double>(n) * control_.seconds_per_bundle};
  }

 private:
  CopierControl& control_;
  int64_t n_ = 0;
};

}  // namespace hearth::testing
