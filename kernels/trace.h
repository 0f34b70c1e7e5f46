// What ran when, on every device, thread and link: a timeline for people (chrome://tracing, Perfetto).
//
// Off unless a Trace is given. Any thread may add spans. Times are of the steady clock; backends convert the
// device's. Track names are few and fixed: "engine", "GPU", "CPU", "PCIe".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/mutex.h"

namespace hearth {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  struct Span {
    const char* track;  // a literal, of characters that JSON takes as they are, as `name`
    const char* name;   // a literal: "attention", "FFN, hot neurons", "copy"
    int layer;          // -1: of no layer
    Clock::time_point begin, end;
    int64_t bytes;  // moved, of copies; 0: not said
  };

  /// Keeps at most max_spans, the first ones.
  explicit Trace(size_t max_spans = 1 << 20) : max_spans_(max_spans) {}

  void add(const Span& span);
  std::vector<Span> spans() const;
  /// Spans that came when there were max_spans already.
  size_t n_left_out() const;

  /// Chrome's trace format: one JSON object, an event a line, times in microseconds since the first span. The
  /// thread of an event is its track; where spans of one track overlap and neither holds the other, which
  /// viewers cannot draw in one row, the later one goes to another row of the same name.
  std::string json() const;

 private:
  const size_t max_spans_;
  mutable Mutex mutex_;
  std::vector<Span> spans_ HEARTH_GUARDED_BY(mutex_);
  size_t n_left_out_ HEARTH_GUARDED_BY(mutex_) = 0;
};

/// A span from here to the end of the block. Null trace: nothing, not even a look at the clock.
class TraceBlock {
 public:
  TraceBlock(Trace* trace, const char* track, const char* name, int layer = -1)
      : trace_(trace),
        span_{.track = track, .name = name, .layer = layer, .begin = {}, .end = {}, .bytes = 0} {
    if (trace_ != nullptr) span_.begin = Trace::Clock::now();
  }
  ~TraceBlock() {
    if (trace_ == nullptr) return;
    span_.end = Trace::Clock::now();
    trace_->add(span_);
  }
  TraceBlock(const TraceBlock&) = delete;
  TraceBlock& operator=(const TraceBlock&) = delete;

 private:
  Trace* trace_;
  Trace::Span span_;
};

}  // namespace hearth
