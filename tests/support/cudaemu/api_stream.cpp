// CUDA's API: streams and events.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>

#include "tests/support/cudaemu/api_calls.h"
#include "tests/support/cudaemu/simulation.h"
#include "tests/support/cudaemu/stats.h"
#include "tests/support/cudaemu/stream.h"
#include "tests/support/cudaemu/stream_registry.h"

using namespace hearth::cudaemu;

namespace {

// The range that every recent device reports. The emulator ignores priorities.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

cudaError_t create(cudaStream_t* out, unsigned flags, int priority) {
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *out = create_stream((flags & cudaStreamNonBlocking) == 0, priority);
  return cudaSuccess;
}

cudaError_t create(cudaEvent_t* out, unsigned flags) {
  auto event = std::make_unique<CUevent_st>();
  event->has_time = (flags & cudaEventDisableTiming) == 0;
  *out = event.release();
  return cudaSuccess;
}

template <class F>
cudaError_t with_stream(cudaStream_t handle, F&& f) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  f(*stream);
  return cudaSuccess;
}

cudaError_t record(Event& event, cudaStream_t handle) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  event.capture = stream->capture;
  event.nodes = stream->last_nodes;
  if (stream->capture != nullptr) return cudaSuccess;
  const std::shared_ptr<EventState> state = event.state;
  const uint64_t n = state->record();
  call_simulated(SimulatedCall::kEvent);
  return enqueue_always(handle, [state, n, stream] { state->finish(n, simulated_end_of(*stream)); });
}

/// If a stream waits for an event of a capturing stream, the first stream joins the capture.
cudaError_t wait_in_capture(Stream& stream, const Event& event) {
  if (event.capture->has_ended()) return cudaErrorCapturedEvent;
  if (stream.capture != nullptr && stream.capture != event.capture) return cudaErrorStreamCaptureMerge;
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.last_nodes.clear();
    event.capture->join(stream);
  }
  stream.last_nodes.insert(stream.last_nodes.end(), event.nodes.begin(), event.nodes.end());
  return cudaSuccess;
}

cudaError_t wait_for(cudaStream_t handle, const Event& event) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (event.capture != nullptr) return wait_in_capture(*stream, event);
  if (stream->capture != nullptr) return cudaErrorStreamCaptureIsolation;
  const std::shared_ptr<EventState> state = event.state;
  const uint64_t n = state->recorded();
  if (n == 0) return cudaSuccess;
  call_simulated(SimulatedCall::kEvent);
  if (is_simulated()) {
    stream->simulated_end = std::max(stream->simulated_end, state->simulated);
    return cudaSuccess;
  }
  return enqueue_always(handle, [state, n] { state->wait(n); });
}

cudaError_t query(const Event& event) { return event.state->is_done() ? cudaSuccess : cudaErrorNotReady; }

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api_call("cudaDeviceGetStreamPriorityRange", [&] {
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  return api_call("cudaStreamCreateWithPriority", [&] { return create(out, flags, priority); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return api_call("cudaStreamCreateWithFlags", [&] { return create(out, flags, kLeastPriority); });
}
cudaError_t cudaStreamCreate(cudaStream_t* out) {
  return api_call("cudaStreamCreate", [&] { return create(out, cudaStreamDefault, kLeastPriority); });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api_release("cudaStreamDestroy", [&] { return destroy_stream(stream); });
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return api_call("cudaStreamGetPriority", [&] {
    return with_stream(handle, [&](Stream& stream) { *priority = stream.priority(); });
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api_wait("cudaStreamSynchronize", [&] {
    count(&Stats::synchronizations);
    return with_stream(handle, [](Stream& stream) { stream.wait(); });
  });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api_wait("cudaStreamQuery", [&] {
    bool idle = false;
    const cudaError_t error = with_stream(handle, [&](Stream& stream) { idle = stream.is_idle(); });
    return error != cudaSuccess || idle ? error : cudaErrorNotReady;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return api_wait("cudaDeviceSynchronize", [] {
    count(&Stats::synchronizations);
    wait_for_device();
    return cudaSuccess;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api_call("cudaLaunchHostFunc", [&] {
    return enqueue(stream, {WorkKind::kHostFunction, 0, nullptr, [=] { function(data); }});
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return api_call("cudaEventCreateWithFlags", [&] { return create(out, flags); });
}
cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return api_call("cudaEventCreate", [&] { return create(out, cudaEventDefault); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_release("cudaEventDestroy", [&] {
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api_call("cudaEventRecord", [&] { return record(*event, stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return api_call("cudaStreamWaitEvent", [&] { return wait_for(stream, *event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api_wait("cudaEventSynchronize", [&] {
    count(&Stats::synchronizations);
    if (event->capture != nullptr) return cudaErrorCapturedEvent;
    event->state->wait(event->state->recorded());
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api_wait("cudaEventQuery",
                  [&] { return event->capture != nullptr ? cudaErrorCapturedEvent : query(*event); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return api_call("cudaEventElapsedTime", [&] {
    if (!begin->has_time || !end->has_time || begin->state->recorded() == 0 || end->state->recorded() == 0)
      return cudaErrorInvalidResourceHandle;
    if (query(*begin) != cudaSuccess || query(*end) != cudaSuccess) return cudaErrorNotReady;
    if (is_simulated()) {
      *ms = static_cast<float>(1e3 * (end->state->simulated - begin->state->simulated));
      return cudaSuccess;
    }
    *ms = std::chrono::duration<float, std::milli>(end->state->time - begin->state->time).count();
    return cudaSuccess;
  });
}
}
