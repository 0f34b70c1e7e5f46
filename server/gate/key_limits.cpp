// See the header.
#include "server/gate/key_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hearth {

KeyLimits::KeyLimits(std::function<Clock::time_point()> now)
    : now_(std::move(now)), state_(std::make_shared<State>()) {}

std::variant<KeyLimits::Place, KeyLimits::Refusal> KeyLimits::enter(const ApiKey& key) {
  if (key.concurrent == 0 && key.per_minute == 0) return Place();
  const MutexLock lock(state_->mutex);
  Use& use = state_->uses[key.name];
  if (key.concurrent > 0 && use.n_running >= key.concurrent) {
    return Refusal{"this API key may have " + std::to_string(key.concurrent) +
                       (key.concurrent == 1 ? " request" : " requests") +
                       " at a time, and they are running; send the next one when one of them has ended",
                   1};
  }
  if (key.per_minute > 0) {
    const Clock::time_point now = now_();
    const double per_second = key.per_minute / 60.0;
    const double grown =
        use.counted ? std::chrono::duration<double>(now - use.since).count() * per_second : key.per_minute;
    use.left = std::min(use.left + grown, static_cast<double>(key.per_minute));
    use.since = now;
    use.counted = true;
    if (use.left < 1) {
      return Refusal{"this API key may send " + std::to_string(key.per_minute) +
                         (key.per_minute == 1 ? " request" : " requests") +
                         " a minute; Retry-After says when the next one is due",
                     std::max(1, static_cast<int>(std::ceil((1 - use.left) / per_second)))};
    }
    --use.left;
  }
  ++use.n_running;
  return Place(nullptr, [state = state_, name = key.name](void*) {
    const MutexLock given_back(state->mutex);
    --state->uses[name].n_running;
  });
}

}  // namespace hearth
