// Reports the server's state to systemd, with the protocol of sd_notify(3). Each message is one datagram.
//
// Created from the values of NOTIFY_SOCKET and WATCHDOG_USEC. The object does nothing if they are empty. Used
// by one thread.
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
  /// socket_path: a file, or "@name" for an abstract socket; empty without a service manager. watchdog_usec:
  /// systemd's time limit in microseconds; empty without a watchdog.
  ServiceManager(const std::string& socket_path, const std::string& watchdog_usec,
                 Clock now = std::chrono::steady_clock::now);

  /// Sends lines such as "READY=1" or "STATUS=..." as one message, without waiting. If the socket is full
  /// because systemd has not read earlier messages, keeps the message for the next beat(). Ignores other
  /// errors, because the server works without systemd.
  void notify(const std::string& lines);
  /// Returns the maximum time between two "WATCHDOG=1" messages, which is half of systemd's limit. Returns
  /// nullopt without a watchdog.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_interval_; }
  /// Call several times a second. First sends the messages that were kept. Then, if is_alive, sends
  /// "WATCHDOG=1" unless the last one was sent less than half of watchdog_interval() ago. systemd restarts
  /// the server if it receives no such message for its limit.
  void beat(bool is_alive);

 private:
  bool send(const std::string& lines) const;  // returns false if the socket is full
  bool send_kept();                           // returns false if some messages are still kept

  std::string path_;
  UniqueFd fd_;
  std::optional<std::chrono::microseconds> watchdog_interval_;
  const Clock now_;
  std::optional<std::chrono::steady_clock::time_point> last_beat_;  // empty if none has been sent
  std::deque<std::string> kept_;                                    // oldest first, without duplicates
};

}  // namespace hearth
