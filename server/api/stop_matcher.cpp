// Stop strings are few and short, so plain searching in the held text and the new piece is enough.
#include "server/api/stop_matcher.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

std::string StopMatcher::push(std::string_view text) {
  assert(!stopped_);
  held_ += text;
  // Of one stop string the first occurrence also ends first; among several the earliest end wins, then the
  // longest.
  size_t best_end = std::string::npos;
  size_t best_start = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t start = held_.find(stop);
    if (start == std::string::npos) continue;
    const size_t end = start + stop.size();
    if (best_end == std::string::npos || end < best_end || (end == best_end && start < best_start)) {
      best_end = end;
      best_start = start;
    }
  }
  stopped_ = best_end != std::string::npos;
  const size_t released = stopped_ ? best_start : held_.size() - held_length();
  std::string out = held_.substr(0, released);
  held_.erase(0, stopped_ ? held_.size() : released);
  return out;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

/// The longest suffix of held_ that begins some stop string without completing it.
size_t StopMatcher::held_length() const {
  size_t longest = 0;
  const std::string_view text = held_;
  for (const std::string_view stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.substr(text.size() - n) == stop.substr(0, n)) longest = n;
    }
  }
  return longest;
}

}  // namespace hearth
