// Generates answers that no client waits for: responses with `background`, which clients fetch later.
//
// Each answer has a thread, which takes the engine's events in place of a client's HTTP thread. One object
// per ApiContext, used by all HTTP threads at once.
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
  /// Most threads at once; more answers would only wait for the engine's slots.
  static constexpr size_t kMaxRunning = 64;

  BackgroundAnswers() = default;
  /// Cancels the running answers and waits for them.
  ~BackgroundAnswers() { ending_ = true; }
  BackgroundAnswers(const BackgroundAnswers&) = delete;
  BackgroundAnswers& operator=(const BackgroundAnswers&) = delete;

  /// Runs the answer; its output is discarded. Returns false, and destroys it, if kMaxRunning answers are
  /// already running.
  bool start(std::unique_ptr<PendingAnswer> answer);

 private:
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  /// Finished answers are removed by the next start().
  std::vector<std::future<void>> running_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
