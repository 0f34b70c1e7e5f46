// The device's part of a timeline: the times at which the work between two marks in its stream began and
// ended.
//
// Owned by DeviceWork if there is a Trace; engine thread. Marks are events in the stream, outside of graphs.
// They are converted to spans after the device has finished, so nothing waits for them.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "kernels/base/trace.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

class DeviceTrace {
 public:
  /// `trace` and the stream must outlive this object.
  DeviceTrace(Trace& trace, cudaStream_t stream);
  ~DeviceTrace();
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;

  Trace& trace() { return trace_; }

  /// Begins a span with the work that is enqueued next.
  void begin() { mark(nullptr, -1); }
  /// Ends the span of the work enqueued since the last mark, and begins the next span. name: a literal.
  void end(const char* name, int layer) { mark(name, layer); }

  /// Adds the spans to the trace. REQUIRES: the device has finished the work of the stream.
  void collect();

 private:
  struct Mark {
    cudaEvent_t event;
    const char* name;  // name of the span that ends here; null: no span ends here
    int layer;
  };

  static cudaEvent_t make_event();
  void mark(const char* name, int layer);
  void set_base();
  Trace::Clock::time_point time_of(cudaEvent_t event) const;

  Trace& trace_;
  cudaStream_t stream_;
  cudaEvent_t base_;  // recorded at base_time_; used to convert device times to host times
  Trace::Clock::time_point base_time_;
  std::vector<cudaEvent_t> free_;
  std::vector<Mark> marks_;
};

}  // namespace hearth::cuda
