// Builds the JSON of the page's events. Pure functions; any thread may call them.
#pragma once

#include <chrono>
#include <deque>
#include <string>

#include "engine/activity/live_activity.h"
#include "engine/engine.h"
#include "server/json/json.h"

namespace hearth {

/// Returns the levels as one hexadecimal digit each.
std::string level_digits(const Levels& levels);

/// Returns the members of a `model` event.
Json model_event(const std::string& model, const std::string& device, const LivePlacement& placement);

/// Returns the members that every `frame` event has. seconds: time since the stream began.
Json frame_event(double seconds, const EngineStatus& status, const EngineFigures& figures,
                 double tokens_per_second, const LivePlacement& placement);

/// Returns the member `fired` of a `frame` event.
Json fired_json(const LiveStep& step);

/// Computes tokens per second over the last kSeconds seconds.
class TokenRate {
 public:
  static constexpr double kSeconds = 2;
  /// Adds the total number of tokens at this time, and returns the current rate. Neither argument may
  /// decrease from call to call.
  double add(double seconds, uint64_t n_tokens);

 private:
  struct Point {
    double seconds;
    uint64_t n_tokens;
  };
  std::deque<Point> points_;
};

}  // namespace hearth
