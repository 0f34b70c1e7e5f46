// The signals of hearthd: SIGINT, SIGTERM and SIGHUP stop the server, SIGUSR1 skips its profiling. main waits
// for them, so that no code runs inside a signal handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

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

 private:
  sigset_t set_, skip_;
};

}  // namespace hearth
