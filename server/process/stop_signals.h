// The signals of hearthd: SIGINT and SIGTERM stop the server, SIGHUP has it read its keys and log level again, SIGUSR1
// skips its profiling. main waits for them, so that no code runs inside a signal handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "kernels/base/unique_fd.h"

namespace hearth {

class StopSignals {
 public:
  /// Blocks the signals in this thread and in the threads that it starts later. REQUIRES: no other thread
  /// exists yet. Leaves SIGHUP alone if it is ignored already, as nohup does.
  StopSignals();

  /// Waits up to `time` for a signal that stops the server. nullopt if none arrived.
  std::optional<int> wait_for(std::chrono::milliseconds time) const;

  /// Whether SIGUSR1 has arrived since the last call.
  bool skip_asked() const;

  /// What SIGHUP has asked for since the last call: to read again, or, if it came because the terminal that the server was
  /// started in was closed, to stop.
  enum class Hangup { kNone, kReload, kTerminalClosed };
  Hangup hangup() const;

 private:
  sigset_t set_, skip_, hangup_;
  UniqueFd terminal_;  // the controlling terminal; none: the server has none
};

}  // namespace hearth
