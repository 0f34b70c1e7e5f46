// Answers that nobody waits for: responses with `background`, which their clients ask for when they are complete.
//
// Each is made by a thread of its own, which takes the engine's events as the thread of a waiting client would. One object for
// the process (ApiContext), used by all HTTP threads at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/http/http_types.h"

namespace hearth {

class BackgroundAnswers {
 public:
  /// So many threads at most; more answers would only wait for the engine's slots.
  static constexpr size_t kMaxRunning = 64;

  BackgroundAnswers() = default;
  /// Breaks off what is being made, and waits for it.
  ~BackgroundAnswers() { ending_ = true; }
  BackgroundAnswers(const BackgroundAnswers&) = delete;
  BackgroundAnswers& operator=(const BackgroundAnswers&) = delete;

  /// produce: as in HttpResponse; what it writes is dropped. Returns false, and destroys it, if kMaxRunning are being made.
  bool start(std::function<bool(ResponseSink&)> produce);

 private:
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  /// Those that have ended go with the next start().
  std::vector<std::future<void>> running_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
