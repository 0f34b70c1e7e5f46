// Limits of each API key: concurrent requests, and requests per minute. Thread-safe.
//
// Only POST requests count; GET /v1/models, for example, does not. A request counts as concurrent until its
// answer has ended, so a stream counts until its end.
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

  /// Represents one concurrent request of a key. The request counts until the last copy of the Place is
  /// destroyed.
  using Place = std::shared_ptr<void>;
  struct Refusal {
    std::string message;  // one sentence
    int retry_after = 1;  // seconds
  };
  /// Counts one request of this key and returns its Place. Returns a refusal if a limit is reached.
  std::variant<Place, Refusal> enter(const ApiKey& key);

 private:
  struct Use {
    int n_running = 0;
    // Number of requests that may start now. It grows steadily, by per_minute in each minute, up to
    // per_minute.
    double left = 0;
    Clock::time_point since;
    bool counted = false;  // whether `left` and `since` are valid
  };
  struct State {
    Mutex mutex;
    std::unordered_map<std::string, Use> uses HEARTH_GUARDED_BY(mutex);  // the key is the API key's name
  };

  std::function<Clock::time_point()> now_;
  std::shared_ptr<State> state_;  // shared, because a Place may outlive this object
};

}  // namespace hearth
