// Tells systemd how the daemon is: the protocol of sd_notify(3), which is one datagram per message.
//
// Made by main from NOTIFY_SOCKET and WATCHDOG_USEC; without them it does nothing. One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "server/http/unique_fd.h"

namespace hearth {

class ServiceManager {
 public:
  /// socket_path: a file, or "@name" for an abstract socket; empty: no service manager. watchdog_usec: as
  /// systemd passes it; empty: no watchdog.
  ServiceManager(const std::string& socket_path, const std::string& watchdog_usec);

  /// Sends "READY=1", "STATUS=...", several lines at once if they belong together. Failures are not ours to
  /// handle.
  void notify(const std::string& lines) const;
  /// How often "WATCHDOG=1" must be sent: half of what systemd allows. nullopt: it does not watch.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_interval_; }

 private:
  std::string path_;
  UniqueFd fd_;
  std::optional<std::chrono::microseconds> watchdog_interval_;
};

}  // namespace hearth
