// Terminal functions that subcommands share: a progress line, Ctrl-C, reading texts, printing results.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "profiler/machine/rate_text.h"

namespace hearth {

class SignalWatch {
 public:
  /// Begins the watch. The first SIGINT or SIGTERM is only noted; the next one has the effect that it had
  /// before the watch.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The signal that was noted; 0 if none.
  int signal() const;
  bool stopped() const { return signal() != 0; }
  /// The exit code that shells report for a program that a signal ended. REQUIRES: stopped().
  int exit_code() const { return 128 + signal(); }
};

/// Thrown by progress callbacks to end work after a signal.
struct Interrupted {};

class ProgressLine {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Write = std::function<void(std::string_view)>;

  /// what: the beginning of the line, for example "Loading". Writes to stderr.
  explicit ProgressLine(std::string what);
  /// Like the above, with another clock, and with a function that writes as if to a terminal.
  ProgressLine(std::string what, Clock clock, Write write);
  /// Removes the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// fraction: the share of the work that is done, in [0, 1]. detail: shown after it; may be empty. Cheap
  /// enough to call for every token.
  void update(double fraction, std::string_view detail = {});

 private:
  std::string what_;
  Clock clock_;
  Write write_;  // empty if there is no terminal
  std::chrono::steady_clock::time_point begin_, next_;
  bool shown_ = false;
};

/// Reads the file at `path`, a text or counts; `option` is named in messages. Throws std::runtime_error (one
/// sentence) if it cannot be read, is empty, or has more than 1 GiB.
std::string read_text(const std::string& path, std::string_view option);

/// Prints a result to standard output. Throws std::runtime_error (one sentence) if that fails, because a
/// result that could not be written (to a full disk, for example) must not look like success.
void print_result(const std::string& text);

}  // namespace hearth
