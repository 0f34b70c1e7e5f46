// Limits of each API key: concurrent requests, and requests per minute. Thread-safe.
//
// Only POST requests count; reading /v1/models, for example, is free. A request counts as concurrent until
// its answer has ended, so a stream holds its place for as long as it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>

#include "kernels/base/mutex.h"
#include "server/gate/key_file.h"

namespace hearth {

class KeyLimits {
 public:
  using Clock = std::chrono::steady_clock;

  explicit KeyLimits(std::function<Clock::time_point()> now = Clock::now);

  /// One of the key's concurrent requests. It counts until the last copy of the Place is destroyed.
  using Place = std::shared_ptr<void>;
  struct Refusal {
    std::string message;  // one sentence
    int retry_after = 1;  // seconds
  };
  /// Returns a place for one request of this key, or a refusal if a limit is reached.
  std::variant<Place, Refusal> enter(const ApiKey& key);

 private:
  struct Use {
    int n_running = 0;
    // Number of requests that may start now. It grows steadily, by per_minute in each minute, but never
    // exceeds per_minute.
    double left = 0;
    Clock::time_point since;
    bool counted = false;  // `left` and `since` are valid
  };
  struct State {
    Mutex mutex;
    std::unordered_map<std::string, Use> uses HEARTH_GUARDED_BY(mutex);  // by the key's name
  };

  std::function<Clock::time_point()> now_;
  std::shared_ptr<State> state_;  // shared, because places may outlive this object
};

}  // namespace hearth
