// A mark in a stream's work that records when the device reached it.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "creating an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "marking work to be timed"); }
  /// REQUIRES: both were recorded and the device has reached both.
  double seconds_since(const TimedEvent& begin) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "timing the device's work");
    return static_cast<double>(ms) / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace hearth::cuda
