// SIGINT, SIGTERM and SIGHUP, which stop the server, and SIGUSR1, which skips its profiling, as values that
// main waits for, so that no code ever runs inside a signal handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace hearth {

class StopSignals {
 public:
  /// Blocks the signals in this thread and all threads it starts later; make it before there are any. SIGHUP
  /// is left alone where nohup ignores it. SIGPIPE is ignored: a client that leaves is an error of write().
  StopSignals();

  /// The signal to stop by that arrived, or nullopt after the time.
  std::optional<int> wait_for(std::chrono::milliseconds time) const;

  /// Whether SIGUSR1 has arrived since the last call.
  bool skip_asked() const;

 private:
  sigset_t set_, skip_;
};

}  // namespace hearth
