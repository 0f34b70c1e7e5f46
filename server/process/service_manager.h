// Tells systemd the state of the daemon, by the protocol of sd_notify(3): one datagram for each message.
//
// Made by main from NOTIFY_SOCKET and WATCHDOG_USEC; without them it does nothing. Used by one thread.
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

  /// Sends lines such as "READY=1" or "STATUS=..." in one message, without waiting. While systemd, on a busy
  /// machine, has not read what was sent before, the message is kept for the next beat(). Ignores other
  /// failures: the server works without systemd.
  void notify(const std::string& lines);
  /// How often "WATCHDOG=1" must be sent: half of the time that systemd allows. nullopt if there is no
  /// watchdog.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_interval_; }
  /// Call several times a second. Sends what was kept; then "WATCHDOG=1" twice in each interval, while the
  /// daemon is alive; systemd restarts one that is not.
  void beat(bool is_alive);

 private:
  bool send(const std::string& lines) const;  // false: the socket is full
  bool send_kept();                           // false: some are still kept

  std::string path_;
  UniqueFd fd_;
  std::optional<std::chrono::microseconds> watchdog_interval_;
  const Clock now_;
  std::optional<std::chrono::steady_clock::time_point> last_beat_;  // empty: none was sent
  std::deque<std::string> kept_;                                    // each message once, the oldest first
};

}  // namespace hearth
