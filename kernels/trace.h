// What ran when, on every device, thread and link: a timeline for people (chrome://tracing, Perfetto).
//
// Off unless a Trace is given. Any thread may add spans. Times are of the steady clock; backends convert the
// device's. Track names are few and fixed: "engine", "GPU", "CPU", "PCIe".
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace hearth {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  struct Span {
    const char* track;  // a literal
    const char* name;   // a literal: "attention", "FFN, hot neurons", "copy"
    int layer;          // -1: of no layer
    Clock::time_point begin, end;
    int64_t bytes;  // moved, of copies; 0: not said
  };

  /// Keeps at most max_spans, the first ones.
  explicit Trace(size_t max_spans = 1 << 20) : max_spans_(max_spans) {}

  void add(const Span& span);
  std::vector<Span> spans() const;

  /// Chrome's trace format: one JSON object, times in microseconds since the first span. Never throws for
  /// what is in it.
  std::string json() const;

 private:
  const size_t max_spans_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace hearth
