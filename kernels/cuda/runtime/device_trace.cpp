#include "kernels/cuda/runtime/device_trace.h"

#include <chrono>

namespace hearth::cuda {
namespace {

// The runtime returns the time between two events as a float in milliseconds. Such a float is exact to a
// microsecond only up to 10 seconds, so set_base() moves the base event after this time.
constexpr std::chrono::seconds kBaseHolds{10};

}  // namespace

DeviceTrace::DeviceTrace(Trace& trace, cudaStream_t stream)
    : trace_(trace), stream_(stream), base_(make_event()) {
  set_base();
}

DeviceTrace::~DeviceTrace() {
  cudaEventDestroy(base_);
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
  for (const Mark& mark : marks_) cudaEventDestroy(mark.event);
}

cudaEvent_t DeviceTrace::make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDefault), "creating an event");
  return event;
}

void DeviceTrace::set_base() {
  check(cudaEventRecord(base_, stream_), "marking the device's time");
  check(cudaEventSynchronize(base_), "waiting for the device's time");
  base_time_ = Trace::Clock::now();
}

void DeviceTrace::mark(const char* name, int layer) {
  if (free_.empty()) free_.push_back(make_event());
  const cudaEvent_t event = free_.back();
  check(cudaEventRecord(event, stream_), "marking the device's time");
  free_.pop_back();
  marks_.push_back({event, name, layer});
}

Trace::Clock::time_point DeviceTrace::time_of(cudaEvent_t event) const {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, base_, event), "reading the device's time");
  return base_time_ +
         std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

void DeviceTrace::collect() {
  Trace::Clock::time_point last{};
  for (const Mark& mark : marks_) {
    const Trace::Clock::time_point now = time_of(mark.event);
    if (mark.name != nullptr) trace_.add({"GPU", mark.name, mark.layer, last, now, 0});
    last = now;
    free_.push_back(mark.event);
  }
  marks_.clear();
  if (Trace::Clock::now() - base_time_ > kBaseHolds) set_base();
}

}  // namespace hearth::cuda
