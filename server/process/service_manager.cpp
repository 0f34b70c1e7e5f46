// Sends datagrams to the service manager's socket.
#include "server/process/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

namespace hearth {

ServiceManager::ServiceManager(const std::string& socket_path, const std::string& watchdog_usec, Clock now)
    : path_(socket_path), now_(std::move(now)) {
  if (path_.size() < 2 || (path_[0] != '/' && path_[0] != '@') ||
      path_.size() >= sizeof(sockaddr_un::sun_path))
    return;
  fd_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  long long usec = 0;
  const char* end = watchdog_usec.data() + watchdog_usec.size();
  const std::from_chars_result result = std::from_chars(watchdog_usec.data(), end, usec);
  if (result.ec == std::errc() && result.ptr == end && usec > 0) {
    watchdog_interval_ = std::chrono::microseconds(usec / 2);
  }
}

void ServiceManager::beat(bool is_alive) {
  if (!send_kept()) return;  // systemd has not read all earlier messages
  if (!is_alive || !watchdog_interval_) return;
  const std::chrono::steady_clock::time_point now = now_();
  if (last_beat_ && now - *last_beat_ < *watchdog_interval_ / 2) return;
  last_beat_ = now;
  send("WATCHDOG=1");
}

void ServiceManager::notify(const std::string& lines) {
  if (send_kept() && send(lines)) return;
  if (std::find(kept_.begin(), kept_.end(), lines) == kept_.end()) kept_.push_back(lines);
}

bool ServiceManager::send_kept() {
  while (!kept_.empty() && send(kept_.front())) kept_.pop_front();
  return kept_.empty();
}

bool ServiceManager::send(const std::string& lines) const {
  if (!fd_) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  if (path_[0] == '@') address.sun_path[0] = '\0';  // Linux marks abstract sockets by a leading NUL
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  const ssize_t sent = ::sendto(fd_.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                                reinterpret_cast<const sockaddr*>(&address), size);
  return sent >= 0 || (errno != EAGAIN && errno != EINTR && errno != ENOBUFS);
}

}  // namespace hearth
