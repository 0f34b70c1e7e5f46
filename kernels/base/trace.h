// A timeline of the work on every device, thread and link, to be viewed in chrome://tracing or Perfetto.
//
// Code that gets a null Trace records nothing. Any thread may add spans. Times are host clock times; backends
// convert the times of their devices. The tracks are named "engine", "GPU", "CPU" and "PCIe".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/base/mutex.h"
#include "kernels/base/virtual_time.h"

namespace hearth {

class Trace {
 public:
  using Clock = HostClock;

  struct Span {
    const char* track;  // like `name`, a string literal that needs no escaping in JSON
    const char* name;   // for example "attention", "FFN, hot neurons", "copy"
    int layer;          // -1: none
    Clock::time_point begin, end;
    int64_t bytes;  // bytes that a copy moved; 0: unknown or not a copy
  };

  /// Keeps the first max_spans spans and drops later ones.
  explicit Trace(size_t max_spans = 1 << 20) : max_spans_(max_spans) {}

  void add(const Span& span);
  std::vector<Span> spans() const;
  /// The number of spans that were dropped because there were max_spans already.
  size_t n_left_out() const;

  /// The spans in Chrome's trace format: one JSON object with one event per line, times in microseconds since
  /// the first span. An event's thread is its track. If two spans of a track overlap and neither contains the
  /// other, the later span gets another row of the same name, because viewers cannot draw both in one row.
  std::string json() const;

 private:
  const size_t max_spans_;
  mutable Mutex mutex_;
  std::vector<Span> spans_ HEARTH_GUARDED_BY(mutex_);
  size_t n_left_out_ HEARTH_GUARDED_BY(mutex_) = 0;
};

/// Adds a span that begins when this object is created and ends when it is destroyed. If the trace is null,
/// it does nothing and does not read the clock.
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

/// A trace, and the file to which it is written at the end. Used by programs with the option --trace.
class TraceFile {
 public:
  /// Creates or empties the file, so that a path that cannot be written is reported before tracing begins.
  /// Throws std::runtime_error (one sentence).
  explicit TraceFile(std::filesystem::path path);

  /// The trace. Any thread may add spans.
  Trace& trace() { return trace_; }

  /// Writes the trace, once. Throws std::runtime_error (one sentence).
  void write();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  Trace trace_;
};

}  // namespace hearth
