// Times work of the device between two events in its stream. The work is recorded as a graph, so that its
// kernels run without waiting for the host.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/step_recorder.h"

namespace hearth::cuda {

/// An event in a stream that records the time at which the device reaches it.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "creating an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "marking work to be timed"); }
  /// REQUIRES: both events were recorded, and the device has reached both.
  double seconds_since(const TimedEvent& begin) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "timing the device's work");
    return static_cast<double>(ms) / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Records everything that work() enqueues on the stream. Throws CudaError, std::bad_alloc, and whatever
/// work() throws.
template <class Work>
GraphExec record(const Stream& stream, const Work& work) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording the work to be timed");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "recording the work to be timed");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_allocation(code, "preparing the work to be timed");
  return GraphExec(exec);
}

inline void launch(const GraphExec& graph, const Stream& stream) {
  check(cudaGraphLaunch(graph, stream), "launching the work to be timed");
}

}  // namespace hearth::cuda
