#include "tests/support/cudaemu/stream.h"

#include <algorithm>
#include <random>
#include <utility>

#include "tests/support/cudaemu/graph.h"
#include "tests/support/cudaemu/stats.h"
#include "tests/support/cudaemu/stream_registry.h"

namespace hearth::cudaemu {
namespace {

std::mutex registry_mutex;
std::vector<CUstream_st*>& registry() {
  static std::vector<CUstream_st*> streams;
  return streams;
}

CUstream_st& default_stream() {
  static CUstream_st& stream = *new CUstream_st(true, 0);  // never destroyed: its thread waits in it
  return stream;
}

}  // namespace

// ---- streams ---------------------------------------------------------------------------------------------

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::loop() {
  std::minstd_rand random(config().seed + static_cast<unsigned>(reinterpret_cast<uintptr_t>(this) >> 6));
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    if (const int most = config().jitter_us; most > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most)));
    work();
    work = nullptr;  // what it holds goes before anyone learns that it is done
    lock.lock();
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

void Stream::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

bool Stream::is_idle() {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

bool is_default(cudaStream_t handle) {
  return handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
}

Stream* find_stream(cudaStream_t handle) {
  if (is_default(handle)) return &default_stream();
  const std::lock_guard lock(registry_mutex);
  return std::find(registry().begin(), registry().end(), handle) != registry().end() ? handle : nullptr;
}

std::vector<Stream*> all_streams() {
  const std::lock_guard lock(registry_mutex);
  return {registry().begin(), registry().end()};
}

cudaStream_t create_stream(bool blocking, int priority) {
  auto stream = std::make_unique<CUstream_st>(blocking, priority);
  const std::lock_guard lock(registry_mutex);
  registry().push_back(stream.get());
  return stream.release();
}

cudaError_t destroy_stream(cudaStream_t handle) {
  {
    const std::lock_guard lock(registry_mutex);
    if (std::erase(registry(), handle) == 0) return cudaErrorInvalidResourceHandle;
  }
  delete handle;
  return cudaSuccess;
}

cudaError_t enqueue_always(cudaStream_t handle, std::function<void()> work) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_default(handle)) {
    if (is_capturing()) return cudaErrorStreamCaptureImplicit;
    count(&Stats::default_stream);
    for (Stream* other : all_streams())
      if (other->is_blocking()) other->wait();
  } else if (stream->is_blocking()) {
    default_stream().wait();
  }
  stream->add(std::move(work));
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t handle, Operation operation) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    stream->capture->add(*stream, std::move(operation));
    return cudaSuccess;
  }
  return enqueue_always(handle, [handle, operation = std::move(operation)] { execute(operation, handle); });
}

void wait_for_device() {
  for (Stream* stream : all_streams()) stream->wait();
  default_stream().wait();
}

// ---- events ----------------------------------------------------------------------------------------------

uint64_t EventState::recorded() {
  const std::lock_guard lock(mutex);
  return n_recorded;
}

void EventState::finish(uint64_t n) {
  const std::lock_guard lock(mutex);
  n_done = n;
  time = std::chrono::steady_clock::now();
  changed.notify_all();
}

void EventState::wait(uint64_t n) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return n_done >= n; });
}

}  // namespace hearth::cudaemu
