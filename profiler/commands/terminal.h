// What subcommands have in common at the terminal: a progress line, Ctrl-C, texts in, results out.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

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

/// "12 s", "3 min 20 s", "2 h 05 min": a time left, for people.
std::string time_left_text(double seconds);

class ProgressLine {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Write = std::function<void(std::string_view)>;

  /// what: begins the line, "Loading". On stderr.
  explicit ProgressLine(std::string what);
  /// The same with another clock and another place to write to, taken as a terminal.
  ProgressLine(std::string what, Clock clock, Write write);
  /// Takes the line away.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// fraction: of the work, in [0, 1]. detail: put behind it; may be empty. Cheap enough for every token.
  void update(double fraction, std::string_view detail = {});

 private:
  std::string what_;
  Clock clock_;
  Write write_;  // empty: nobody is watching
  std::chrono::steady_clock::time_point begin_, next_;
  bool shown_ = false;
};

/// The bytes of a file that `option` names: a text, or counts. Throws std::runtime_error (one sentence) if it
/// cannot be read, is empty, or has more than 1 GiB.
std::string read_text(const std::string& path, std::string_view option);

/// Prints a result on the standard output; throws std::runtime_error (one sentence) if that fails: what could
/// not be written (a full disk, say) must not look like success.
void print_result(const std::string& text);

}  // namespace hearth
