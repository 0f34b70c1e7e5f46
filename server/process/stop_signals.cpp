// The signals are blocked and then fetched one by one.
#include "server/process/stop_signals.h"

#include <pthread.h>

namespace hearth {

StopSignals::StopSignals() {
  ::sigemptyset(&set_);
  ::sigaddset(&set_, SIGINT);
  ::sigaddset(&set_, SIGTERM);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) ::sigaddset(&set_, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  ::sigemptyset(&skip_);
  ::sigaddset(&skip_, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &skip_, nullptr);
}

std::optional<int> StopSignals::wait_for(std::chrono::milliseconds time) const {
  timespec limit{};
  limit.tv_sec = time.count() / 1000;
  limit.tv_nsec = time.count() % 1000 * 1'000'000;
  const int signal = ::sigtimedwait(&set_, nullptr, &limit);
  return signal > 0 ? std::optional<int>(signal) : std::nullopt;
}

bool StopSignals::skip_asked() const {
  const timespec at_once{};
  return ::sigtimedwait(&skip_, nullptr, &at_once) > 0;
}

}  // namespace hearth
