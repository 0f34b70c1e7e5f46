// Generates responses with `background`. No client waits for them; clients fetch them later.
//
// Each answer has a thread, which reads the engine's events in place of a client's HTTP thread. Each
// ApiContext has one BackgroundAnswers. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/api/answer/reply.h"

namespace hearth {

class BackgroundAnswers {
 public:
  /// Maximum number of running answers. More answers would only wait for the engine's slots.
  static constexpr size_t kMaxRunning = 64;

  BackgroundAnswers() = default;
  /// Cancels the running answers and waits for them.
  ~BackgroundAnswers() { ending_ = true; }
  BackgroundAnswers(const BackgroundAnswers&) = delete;
  BackgroundAnswers& operator=(const BackgroundAnswers&) = delete;

  /// Runs the answer and discards its output. If kMaxRunning answers are running, destroys `answer` and
  /// returns false.
  bool start(std::unique_ptr<PendingAnswer> answer);

 private:
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  /// start() removes the answers that have finished.
  std::vector<std::future<void>> running_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
