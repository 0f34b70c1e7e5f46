// The signals of hearthd: SIGINT and SIGTERM stop the server, SIGHUP makes it reload (server/reload.h),
// SIGUSR1 skips its profiling. main waits for them, so no code runs inside a signal handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "kernels/base/unique_fd.h"

namespace hearth {

class StopSignals {
 public:
  /// Blocks the signals in this thread and in threads that it starts later. REQUIRES: no other thread exists
  /// yet. If SIGHUP is already ignored (nohup), leaves it alone.
  StopSignals();

  /// Waits up to `time` for a signal that stops the server. Returns nullopt if none arrived.
  std::optional<int> wait_for(std::chrono::milliseconds time) const;

  /// Whether SIGUSR1 has arrived since the last call.
  bool skip_asked() const;

  /// The meaning of SIGHUP since the last call: reload, or stop if it came because the terminal that the
  /// server was started in was closed.
  enum class Hangup { kNone, kReload, kTerminalClosed };
  Hangup hangup() const;

 private:
  sigset_t set_, skip_, hangup_;
  UniqueFd terminal_;  // the controlling terminal; empty: none
};

}  // namespace hearth
