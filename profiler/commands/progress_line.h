// One line about work that takes long, for whoever waits at a terminal: how much is done and how long is
// left.
//
// Written over itself on stderr, so that results on stdout stay clean; nothing at all where stderr is no
// terminal or the work is over within two seconds. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace hearth {

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

}  // namespace hearth
