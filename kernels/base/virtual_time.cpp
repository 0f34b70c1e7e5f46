// Implements VirtualTime and HostClock.
#include "kernels/base/virtual_time.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <utility>

namespace hearth {
namespace {

std::atomic<VirtualTime*> the_time = nullptr;

/// `thread` is the calling thread's entry in the VirtualTime `of`.
thread_local struct {
  const VirtualTime* of = nullptr;
  void* thread = nullptr;
} own_part;

}  // namespace

VirtualTime::VirtualTime() {
  VirtualTime* none = nullptr;
  if (!the_time.compare_exchange_strong(none, this))
    throw std::logic_error("Time is virtual already; this is a mistake in Hearth.");
  threads_.push_back(std::make_unique<Thread>());
  running_ = threads_.front().get();
  own_part = {this, running_};
}

VirtualTime::~VirtualTime() { end(); }

VirtualTime* VirtualTime::current() { return the_time.load(std::memory_order_acquire); }

/// Returns the calling thread's entry. A new thread first waits for its turn.
VirtualTime::Thread& VirtualTime::self(std::unique_lock<std::mutex>& lock) {
  if (own_part.of == this) return *static_cast<Thread*>(own_part.thread);
  Thread& me = *threads_.emplace_back(std::make_unique<Thread>());
  me.time = running_->time;
  own_part = {this, &me};
  joined_.notify_all();
  me.turn.wait(lock, [&] { return running_ == &me || ended_; });
  return me;
}

/// Lets the thread with the smallest time run. Returns when the calling thread, `me`, gets its next turn.
void VirtualTime::pass_on(std::unique_lock<std::mutex>& lock, Thread& me) {
  if (ended_) return;
  Thread* next = nullptr;
  for (const auto& thread : threads_) {
    if (thread->waits_for != nullptr) continue;
    const bool first =
        next == nullptr || thread->time < next->time || (thread->time == next->time && thread.get() == &me);
    if (first) next = thread.get();
  }
  if (next == nullptr)
    throw std::logic_error("All simulated threads wait for each other; this is a mistake in Hearth.");
  if (next == &me) return;
  running_ = next;
  next->turn.notify_all();
  me.turn.wait(lock, [&] { return running_ == &me || ended_; });
}

double VirtualTime::now() {
  std::unique_lock lock(mutex_);
  return self(lock).time;
}

void VirtualTime::spend(double seconds) {
  std::unique_lock lock(mutex_);
  Thread& me = self(lock);
  me.time += std::max(seconds, 0.0);
  pass_on(lock, me);
}

void VirtualTime::wait_until(double time) {
  std::unique_lock lock(mutex_);
  Thread& me = self(lock);
  me.time = std::max(me.time, time);
  pass_on(lock, me);
}

void VirtualTime::block(const void* channel) {
  std::unique_lock lock(mutex_);
  if (own_part.of != this) {  // a new thread joins and waits; the running thread continues
    Thread& me = *threads_.emplace_back(std::make_unique<Thread>());
    me.waits_for = channel;
    own_part = {this, &me};
    joined_.notify_all();
    me.turn.wait(lock, [&] { return running_ == &me || ended_; });
    return;
  }
  Thread& me = self(lock);
  me.waits_for = channel;
  pass_on(lock, me);
}

void VirtualTime::notify(const void* channel, double latency) {
  std::unique_lock lock(mutex_);
  const double time = self(lock).time + latency;
  for (const auto& thread : threads_) {
    if (thread->waits_for != channel) continue;
    thread->waits_for = nullptr;
    thread->time = std::max(thread->time, time);
  }
}

void VirtualTime::wait_for_threads(size_t n) {
  std::unique_lock lock(mutex_);
  joined_.wait(lock, [&] { return threads_.size() >= n; });
}

void VirtualTime::end() {
  {
    const std::unique_lock lock(mutex_);
    if (std::exchange(ended_, true)) return;
    the_time.store(nullptr, std::memory_order_release);
    for (const auto& thread : threads_) thread->turn.notify_all();
  }
  if (own_part.of == this) own_part = {};
}

HostClock::time_point HostClock::at(double seconds) {
  // One second is added, because some callers use time point 0 for "never".
  return time_point(std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds + 1)));
}

HostClock::time_point HostClock::now() {
  VirtualTime* const time = VirtualTime::current();
  return time == nullptr ? std::chrono::steady_clock::now() : at(time->now());
}

}  // namespace hearth
