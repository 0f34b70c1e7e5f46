// How much each API key may ask for: requests at once, and requests a minute. Thread-safe.
//
// Only POST requests count: reading /v1/models costs nothing. A request counts as one until its response is
// gone, so a stream holds its place for as long as it runs.
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

  /// A place among the key's requests, given back when the last copy goes.
  using Place = std::shared_ptr<void>;
  struct Refusal {
    std::string message;  // one sentence
    int retry_after = 1;  // seconds
  };
  /// Asks for a place for one request of this key.
  std::variant<Place, Refusal> enter(const ApiKey& key);

 private:
  struct Use {
    int n_running = 0;
    // Requests that may come at once now: grows by per_minute a minute, up to per_minute.
    double left = 0;
    Clock::time_point since;
    bool counted = false;  // `left` and `since` are set
  };
  struct State {
    Mutex mutex;
    std::unordered_map<std::string, Use> uses HEARTH_GUARDED_BY(mutex);  // by the key's name
  };

  std::function<Clock::time_point()> now_;
  std::shared_ptr<State> state_;  // places outlive the limits
};

}  // namespace hearth
