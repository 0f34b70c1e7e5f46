// Shows the progress of a pull to people: one updated line on a terminal, otherwise a line every few seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace hearth {

class PullProgress {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Write = std::function<void(std::string_view)>;

  /// what: the model's name. Writes to standard error.
  explicit PullProgress(std::string what);
  /// Like the constructor above, with another clock and output.
  PullProgress(std::string what, Clock clock, Write write, bool is_terminal);
  /// Erases the line on a terminal.
  ~PullProgress();
  PullProgress(const PullProgress&) = delete;
  PullProgress& operator=(const PullProgress&) = delete;

  /// there: bytes present of `size` (0: unknown); loaded: bytes received from the network. Cheap to call
  /// often.
  void update(uint64_t there, uint64_t size, uint64_t loaded);
  /// Prints a sentence on a separate line.
  void note(const std::string& sentence);

 private:
  struct Sample {
    std::chrono::steady_clock::time_point time;
    uint64_t loaded;
  };
  double bytes_per_s() const;
  std::string line(uint64_t there, uint64_t size) const;

  std::string what_;
  Clock clock_;
  Write write_;
  bool is_terminal_, shown_ = false;
  std::chrono::steady_clock::time_point next_;
  std::deque<Sample> samples_;  // of the last seconds, to compute the rate
};

}  // namespace hearth
