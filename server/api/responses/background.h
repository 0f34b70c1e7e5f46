// Generates answers for which no client waits: responses with `background`, which clients fetch later.
//
// Each answer has a thread, which takes the engine's events as a client's HTTP thread otherwise would. Each
// ApiContext has one object, used by all HTTP threads at once.
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
  /// Maximum number of threads at once. Further answers would only wait for the engine's slots.
  static constexpr size_t kMaxRunning = 64;

  BackgroundAnswers() = default;
  /// Cancels the running answers and waits for them.
  ~BackgroundAnswers() { ending_ = true; }
  BackgroundAnswers(const BackgroundAnswers&) = delete;
  BackgroundAnswers& operator=(const BackgroundAnswers&) = delete;

  /// Runs the answer and discards its output. If kMaxRunning answers are already running, destroys `answer`
  /// and returns false.
  bool start(std::unique_ptr<PendingAnswer> answer);

 private:
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  /// The next start() removes finished answers.
  std::vector<std::future<void>> running_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
