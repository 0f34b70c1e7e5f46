// Streams and events: a stream is an OS thread with a queue.
//
// An event is a counter: recording enqueues "the count is n now", waiting enqueues a wait for that n. The
// legacy default stream is an ordinary stream whose work waits for the work of all blocking streams and makes
// them wait.
#pragma once

#include <driver_types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/cudaemu/operation.h"

namespace hearth::cudaemu {

class Capture;

class Stream {
 public:
  Stream(bool blocking, int priority) : blocking_(blocking), priority_(priority) {}
  /// Waits for the stream's work.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void add(std::function<void()> work);
  bool is_idle();
  void wait();
  /// Returns whether the stream is ordered with the legacy default stream.
  bool is_blocking() const { return blocking_; }
  int priority() const { return priority_; }

  /// For a simulated device: the virtual time at which all its work is done.
  double simulated_end = 0;

  // Set while the stream captures. Only calls that name the stream touch it, and CUDA requires callers to
  // order such calls.
  std::shared_ptr<Capture> capture;
  std::vector<int> last_nodes;  // nodes of the capture's graph on which the next operation depends

 private:
  using Work = std::unique_ptr<std::function<void()>>;

  void loop();
  /// Waits for the next work and returns it, or null when the stream ends.
  Work next();

  const bool blocking_;
  const int priority_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_{[this] { loop(); }};
};

/// The part of an event that remains after its destruction while it is being recorded or waited for.
struct EventState {
  EventState() = default;
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;

  std::mutex mutex;
  std::condition_variable changed;
  uint64_t n_recorded = 0, n_done = 0;
  std::chrono::steady_clock::time_point time;  // when the last recording finished
  // for a simulated device: the virtual time of the last recording
  double simulated = 0;

  /// Returns the new count.
  uint64_t record();
  uint64_t recorded();
  void finish(uint64_t n, double simulated_time = 0);
  void wait(uint64_t n);
  bool is_done();
};

struct Event {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  bool has_time = true;
  // The graph's node, if the event was recorded in a stream that captured.
  std::shared_ptr<Capture> capture;
  std::vector<int> nodes;
};

/// Returns whether the handle is null or another name for the default stream. Only the legacy default stream
/// is supported.
bool is_default(cudaStream_t handle);
/// The stream for a handle, or null if it does not exist or was destroyed.
Stream* find_stream(cudaStream_t handle);
std::vector<Stream*> all_streams();  // except the default one

/// Appends to the stream, or to the graph that it captures.
cudaError_t enqueue(cudaStream_t handle, Operation operation);
/// Appends work that runs even when the device is lost: recording events, waiting for them, running graphs.
/// The stream must not be capturing.
cudaError_t enqueue_always(cudaStream_t handle, std::function<void()> work);
/// Waits for all streams.
void wait_for_device();

}  // namespace hearth::cudaemu

// Types that NVIDIA's headers declare and never define.
struct CUstream_st final : hearth::cudaemu::Stream {
  using Stream::Stream;
};
struct CUevent_st final : hearth::cudaemu::Event {};
