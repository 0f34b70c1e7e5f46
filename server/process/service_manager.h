// Reports the daemon's state to systemd with the protocol of sd_notify(3), in one datagram per message.
//
// main creates this object from NOTIFY_SOCKET and WATCHDOG_USEC; without them, it does nothing. Used by one
// thread.
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
  /// watchdog_usec: the limit in microseconds, as systemd passes it; empty if there is no watchdog.
  ServiceManager(const std::string& socket_path, const std::string& watchdog_usec,
                 Clock now = std::chrono::steady_clock::now);

  /// Sends lines such as "READY=1" or "STATUS=..." in one message, without waiting. If systemd has not read
  /// earlier messages because the machine is busy, keeps the message for the next beat(). Ignores other
  /// failures, because the server also works without systemd.
  void notify(const std::string& lines);
  /// The interval at which "WATCHDOG=1" must be sent: half of systemd's limit, or nullopt if there is no
  /// watchdog.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_interval_; }
  /// Must be called several times a second. First sends the kept messages. Then, if the daemon is alive,
  /// sends "WATCHDOG=1" twice per interval. systemd restarts the daemon if "WATCHDOG=1" stays away.
  void beat(bool is_alive);

 private:
  bool send(const std::string& lines) const;  // returns false if the socket is full
  bool send_kept();                           // returns false if some messages are still kept

  std::string path_;
  UniqueFd fd_;
  std::optional<std::chrono::microseconds> watchdog_interval_;
  const Clock now_;
  std::optional<std::chrono::steady_clock::time_point> last_beat_;  // empty if none was sent
  std::deque<std::string> kept_;                                    // oldest first, without duplicates
};

}  // namespace hearth
