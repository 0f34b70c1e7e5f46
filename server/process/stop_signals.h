// The signals that hearthd handles: SIGINT and SIGTERM stop the server, SIGHUP reloads settings
// (server/reload.h), SIGUSR1 skips profiling. main waits for these signals, so no code runs in a signal
// handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "kernels/base/unique_fd.h"

namespace hearth {

class StopSignals {
 public:
  /// Blocks the signals in this thread and in threads that it starts later. If SIGHUP is ignored (nohup), it
  /// stays ignored. REQUIRES: no other thread exists.
  StopSignals();

  /// Waits up to `time` for SIGINT or SIGTERM. Returns the signal, or nullopt if none arrived.
  std::optional<int> wait_for(std::chrono::milliseconds time) const;

  /// Whether SIGUSR1 has arrived since the last call.
  bool skip_asked() const;

  /// The meaning of a SIGHUP since the last call: reload settings, or stop because the terminal of the server
  /// was closed.
  enum class Hangup { kNone, kReload, kTerminalClosed };
  Hangup hangup() const;

 private:
  sigset_t set_, skip_, hangup_;
  UniqueFd terminal_;  // the controlling terminal; empty without one
};

}  // namespace hearth
