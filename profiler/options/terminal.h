// Terminal functions that subcommands share: a progress line, handling of Ctrl-C, reading texts, and printing
// results.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "profiler/machine/rate_text.h"

namespace hearth {

class SignalWatch {
 public:
  /// Begins to watch for signals. The first SIGINT or SIGTERM is only recorded, and restores the signal
  /// handlers that were set before this object was constructed. They handle the second signal.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The recorded signal, or 0 if none has arrived.
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
  /// For tests: uses another clock, and prints with `write` as if to a terminal.
  ProgressLine(std::string what, Clock clock, Write write);
  /// Removes the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// fraction: the completed share of the work, in [0, 1]. detail: text to show after the fraction; may be
  /// empty. Cheap enough to call for every token.
  void update(double fraction, std::string_view detail = {});

 private:
  std::string what_;
  Clock clock_;
  Write write_;  // empty if there is no terminal
  std::chrono::steady_clock::time_point begin_, next_;
  bool shown_ = false;
};

/// Reads the file at `path`, which holds text or counts. `option` is named in messages. Throws
/// std::runtime_error (one sentence) if the file cannot be read, is empty, or is larger than 1 GiB.
std::string read_text(const std::string& path, std::string_view option);

/// Prints a result to standard output. Throws std::runtime_error (one sentence) if that fails, because a
/// result that could not be written (to a full disk, for example) must not look like success.
void print_result(const std::string& text);

}  // namespace hearth
