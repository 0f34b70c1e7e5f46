// What the API handlers take from the world: time and chance. Tests put their own in.
//
// Held by ApiService; called from any HTTP thread, so all three are thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace hearth {

struct ApiWorld {
  std::function<int64_t()> unix_seconds;                       // for `created`
  std::function<std::chrono::steady_clock::time_point()> now;  // for keep-alive pings
  std::function<uint64_t()> random_bits;                       // for ids, and for seeds nobody asked for
  static ApiWorld real();
};

}  // namespace hearth
