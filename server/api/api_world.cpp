// The real clocks and a random generator per thread.
#include "server/api/api_world.h"

#include <random>

namespace hearth {

ApiWorld ApiWorld::real() {
  return {
      .unix_seconds =
          [] {
            const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
            return static_cast<int64_t>(
                std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count());
          },
      .now = [] { return std::chrono::steady_clock::now(); },
      .random_bits =
          [] {
            // Ids must not repeat between threads or restarts, so each thread's generator is seeded by the
            // system.
            thread_local std::mt19937_64 generator{[] {
              std::random_device device;
              return (static_cast<uint64_t>(device()) << 32) | device();
            }()};
            return generator();
          },
  };
}

}  // namespace hearth
