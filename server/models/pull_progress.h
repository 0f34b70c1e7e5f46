// Shows the progress of a download: on a terminal as one line that is updated, otherwise as a new line every
// few seconds.
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

  /// what: the model's name. Progress is written to standard error.
  explicit PullProgress(std::string what);
  /// Like the constructor above, with a replaceable clock and output.
  PullProgress(std::string what, Clock clock, Write write, bool is_terminal);
  /// Erases the line if the output is a terminal.
  ~PullProgress();
  PullProgress(const PullProgress&) = delete;
  PullProgress& operator=(const PullProgress&) = delete;

  /// there: bytes present. size: total bytes, or 0 if unknown. loaded: bytes received from the network.
  /// Cheap, so it may be called often.
  void update(uint64_t there, uint64_t size, uint64_t loaded);
  /// Prints a sentence on a line of its own.
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
  std::deque<Sample> samples_;  // samples of the last seconds, for the rate
};

}  // namespace hearth
