// Reports the daemon's state to systemd with the protocol of sd_notify(3), one datagram per message.
//
// Made by main from NOTIFY_SOCKET and WATCHDOG_USEC; does nothing without them. Used by one thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "kernels/base/unique_fd.h"

namespace hearth {

class ServiceManager {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  /// socket_path: a file, or "@name" for an abstract socket; empty if there is no service manager.
  /// watchdog_usec: microseconds, as systemd passes them; empty if there is no watchdog.
  ServiceManager(const std::string& socket_path, const std::string& watchdog_usec,
                 Clock now = std::chrono::steady_clock::now);

  /// Sends lines such as "READY=1" or "STATUS=..." in one message, without waiting. If systemd, on a busy
  /// machine, has not read earlier messages, keeps the message for the next beat(). Ignores other failures:
  /// the server works without systemd.
  void notify(const std::string& lines);
  /// The interval at which "WATCHDOG=1" must be sent: half of systemd's limit. nullopt without a watchdog.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_interval_; }
  /// Call several times a second. Sends kept messages; then, while the daemon is alive, "WATCHDOG=1" twice
  /// per interval. systemd restarts a daemon that is not alive.
  void beat(bool is_alive);

 private:
  bool send(const std::string& lines) const;  // false: the socket is full
  bool send_kept();                           // false: some are still kept

  std::string path_;
  UniqueFd fd_;
  std::optional<std::chrono::microseconds> watchdog_interval_;
  const Clock now_;
  std::optional<std::chrono::steady_clock::time_point> last_beat_;  // empty: none was sent
  std::deque<std::string> kept_;                                    // oldest first, without duplicates
};

}  // namespace hearth
