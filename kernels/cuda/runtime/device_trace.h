// The device's part of a timeline: when the work between two marks in its stream began and ended.
//
// Owned by DeviceWork, where a Trace is given; engine thread. Marks are events in the stream, outside of
// graphs. They become spans when the device has finished, so nothing waits for them.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "kernels/base/trace.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

class DeviceTrace {
 public:
  /// `trace` and the stream must outlive it.
  DeviceTrace(Trace& trace, cudaStream_t stream);
  ~DeviceTrace();
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;

  Trace& trace() { return trace_; }

  /// Begins a span with the work enqueued from here on.
  void begin() { mark(nullptr, -1); }
  /// Ends the span of the work enqueued since the last mark, and begins another. name: a literal.
  void end(const char* name, int layer) { mark(name, layer); }

  /// Adds the spans to the trace. REQUIRES: the stream was waited for.
  void collect();

 private:
  struct Mark {
    cudaEvent_t event;
    const char* name;  // of the span that ends here; null: no span ends here
    int layer;
  };

  static cudaEvent_t make_event();
  void mark(const char* name, int layer);
  void set_base();
  Trace::Clock::time_point time_of(cudaEvent_t event) const;

  Trace& trace_;
  cudaStream_t stream_;
  cudaEvent_t base_;  // an event recorded at base_time_; ties the device's time to the clock's
  Trace::Clock::time_point base_time_;
  std::vector<cudaEvent_t> free_;
  std::vector<Mark> marks_;
};

}  // namespace hearth::cuda
