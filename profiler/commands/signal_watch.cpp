// See the header.
#include "profiler/commands/signal_watch.h"

#include <signal.h>

#include <atomic>
#include <csignal>

namespace hearth {
namespace {

using Handler = void (*)(int);

// What the handler touches: no more than it may.
std::atomic<int> noted{0};
std::atomic<Handler> before_int{SIG_DFL}, before_term{SIG_DFL};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<Handler>::is_always_lock_free);

void hand_back() {
  std::signal(SIGINT, before_int);
  std::signal(SIGTERM, before_term);
}

Handler handler_of(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

extern "C" void note_signal(int signal) {
  noted = signal;
  hand_back();
}

}  // namespace

SignalWatch::SignalWatch() {
  noted = 0;
  // Both are known before a signal of either kind can ask for them.
  before_int = handler_of(SIGINT);
  before_term = handler_of(SIGTERM);
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
}

SignalWatch::~SignalWatch() { hand_back(); }

int SignalWatch::signal() const { return noted; }

}  // namespace hearth
