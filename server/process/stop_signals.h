// The signals that hearthd handles: SIGINT and SIGTERM stop the server, SIGHUP makes it reload
// (server/reload.h), SIGUSR1 skips its profiling. main waits for these signals, so no code runs inside a
// signal handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "kernels/base/unique_fd.h"

namespace hearth {

class StopSignals {
 public:
  /// Blocks the signals in this thread and in threads that it starts later. Does not change SIGHUP if it is
  /// already ignored (nohup). REQUIRES: no other thread exists yet.
  StopSignals();

  /// Waits up to `time` for a signal that stops the server. Returns nullopt if none arrived.
  std::optional<int> wait_for(std::chrono::milliseconds time) const;

  /// Whether SIGUSR1 has arrived since the last call.
  bool skip_asked() const;

  /// The meaning of a SIGHUP that has arrived since the last call: to reload, or to stop because the terminal
  /// in which the server was started has been closed.
  enum class Hangup { kNone, kReload, kTerminalClosed };
  Hangup hangup() const;

 private:
  sigset_t set_, skip_, hangup_;
  UniqueFd terminal_;  // the controlling terminal; empty if there is none
};

}  // namespace hearth
