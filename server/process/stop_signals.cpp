// Blocks the signals, and reads them one at a time.
#include "server/process/stop_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include <initializer_list>

namespace hearth {
namespace {

sigset_t blocked(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool arrived(const sigset_t& set) {
  const timespec at_once{};
  return ::sigtimedwait(&set, nullptr, &at_once) > 0;
}

}  // namespace

StopSignals::StopSignals()
    : set_(blocked({SIGINT, SIGTERM})),
      skip_(blocked({SIGUSR1})),
      hangup_(is_ignored(SIGHUP) ? blocked({}) : blocked({SIGHUP})),
      terminal_(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)) {}

std::optional<int> StopSignals::wait_for(std::chrono::milliseconds time) const {
  timespec limit{};
  limit.tv_sec = time.count() / 1000;
  limit.tv_nsec = time.count() % 1000 * 1'000'000;
  const int signal = ::sigtimedwait(&set_, nullptr, &limit);
  return signal > 0 ? std::optional<int>(signal) : std::nullopt;
}

bool StopSignals::skip_asked() const { return arrived(skip_); }

StopSignals::Hangup StopSignals::hangup() const {
  if (!arrived(hangup_)) return Hangup::kNone;
  pollfd entry{terminal_.get(), 0, 0};  // poll() ignores a negative descriptor
  const bool closed = ::poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0;
  return closed ? Hangup::kTerminalClosed : Hangup::kReload;
}

}  // namespace hearth
