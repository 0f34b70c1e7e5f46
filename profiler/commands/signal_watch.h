// Ctrl-C and kill, noted for work that has something to keep, or to take away, before the program ends.
//
// Used by subcommands that run for long, one watch at a time, on the thread that makes it; signal() on any.
#pragma once

namespace hearth {

class SignalWatch {
 public:
  /// From now on the first SIGINT or SIGTERM is only noted; the next does what it did before the watch.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The signal that was noted; 0: none.
  int signal() const;
  bool stopped() const { return signal() != 0; }
  /// As shells report a program that a signal ended. REQUIRES: stopped().
  int exit_code() const { return 128 + signal(); }
};

/// Thrown by what shows progress to end work that a signal is to stop.
struct Interrupted {};

}  // namespace hearth
