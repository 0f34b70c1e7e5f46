#include "tests/support/cudaemu/stream.h"

#include <algorithm>
#include <random>
#include <utility>

#include "tests/support/cudaemu/graph.h"
#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/simulation.h"
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
  static CUstream_st& stream = *new CUstream_st(true, 0);  // never destroyed, because its thread waits in it
  return stream;
}

}  // namespace

// ---- streams ---------------------------------------------------------------------------------------------

Stream::~Stream() {
  {
    const UnseenLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::loop() {
  std::minstd_rand random(config().seed + static_cast<unsigned>(reinterpret_cast<uintptr_t>(this) >> 6));
  for (;;) {
    Work work = next();
    if (work == nullptr) return;
    acquire_order(work.get());
    if (const int most = config().jitter_us; most > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most)));
    (*work)();
    work.reset();  // releases the work's objects before other threads learn that it is done
    release_order(&queue_);
    const UnseenLock lock(mutex_);
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

Stream::Work Stream::next() {
  UnseenLock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  if (queue_.empty()) return nullptr;
  Work work = std::move(queue_.front());
  queue_.pop_front();
  busy_ = true;
  return work;
}

void Stream::add(std::function<void()> work) {
  if (is_simulated()) return work();
  auto appended = std::make_unique<std::function<void()>>(std::move(work));
  release_order(appended.get());
  const UnseenLock lock(mutex_);
  queue_.push_back(std::move(appended));
  changed_.notify_all();
}

bool Stream::is_idle() {
  if (is_simulated()) return simulated_end <= simulated_now();
  {
    const UnseenLock lock(mutex_);
    if (!queue_.empty() || busy_) return false;
  }
  acquire_order(&queue_);
  return true;
}

void Stream::wait() {
  if (is_simulated()) return wait_simulated_until(simulated_end);
  {
    UnseenLock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
  }
  acquire_order(&queue_);
}

bool is_default(cudaStream_t handle) {
  return handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
}

Stream* find_stream(cudaStream_t handle) {
  if (is_default(handle)) return &default_stream();
  const UnseenLock lock(registry_mutex);
  return std::find(registry().begin(), registry().end(), handle) != registry().end() ? handle : nullptr;
}

std::vector<Stream*> all_streams() {
  const UnseenLock lock(registry_mutex);
  return {registry().begin(), registry().end()};
}

cudaStream_t create_stream(bool blocking, int priority) {
  auto stream = std::make_unique<CUstream_st>(blocking, priority);
  const UnseenLock lock(registry_mutex);
  registry().push_back(stream.get());
  return stream.release();
}

cudaError_t destroy_stream(cudaStream_t handle) {
  {
    const UnseenLock lock(registry_mutex);
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
  call_simulated(SimulatedCall::kWork);
  return enqueue_always(handle, [handle, operation = std::move(operation)] { execute(operation, handle); });
}

void wait_for_device() {
  for (Stream* stream : all_streams()) stream->wait();
  default_stream().wait();
}

// ---- events ----------------------------------------------------------------------------------------------

uint64_t EventState::record() {
  const UnseenLock lock(mutex);
  return ++n_recorded;
}

uint64_t EventState::recorded() {
  const UnseenLock lock(mutex);
  return n_recorded;
}

void EventState::finish(uint64_t n, double simulated_time) {
  release_order(this);
  const UnseenLock lock(mutex);
  n_done = n;
  simulated = simulated_time;
  time = std::chrono::steady_clock::now();
  changed.notify_all();
}

void EventState::wait(uint64_t n) {
  if (is_simulated()) return wait_simulated_until(simulated);
  {
    UnseenLock lock(mutex);
    changed.wait(lock, [&] { return n_done >= n; });
  }
  acquire_order(this);
}

bool EventState::is_done() {
  if (is_simulated()) return simulated <= simulated_now();
  {
    const UnseenLock lock(mutex);
    if (n_done < n_recorded) return false;
  }
  acquire_order(this);
  return true;
}

}  // namespace hearth::cudaemu
