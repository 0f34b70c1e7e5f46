// The channel of one request from the engine thread to an HTTP thread: a queue of events under a mutex.
#include "engine/serving/token_stream.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {

TokenStream::TokenStream(int n_sequences) : cancelled_(static_cast<size_t>(n_sequences), false) {}

void TokenStream::push(StreamEvent event) {
  {
    const MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }
  ready_.notify_one();
}

std::optional<StreamEvent> TokenStream::pop_for(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  if (!ready_.wait_for(lock.for_wait(), timeout,
                       [this]() HEARTH_REQUIRES(mutex_) { return !events_.empty(); }))
    return std::nullopt;
  std::optional<StreamEvent> event(std::move(events_.front()));
  events_.pop_front();
  return event;
}

void TokenStream::cancel() {
  const MutexLock lock(mutex_);
  std::fill(cancelled_.begin(), cancelled_.end(), true);
  any_cancelled_.store(true, std::memory_order_release);
}

void TokenStream::cancel_sequence(int sequence) {
  const MutexLock lock(mutex_);
  assert(sequence >= 0 && static_cast<size_t>(sequence) < cancelled_.size());
  cancelled_[static_cast<size_t>(sequence)] = true;
  any_cancelled_.store(true, std::memory_order_release);
}

bool TokenStream::cancelled(int sequence) const {
  // The engine calls this for every sequence in every step, and almost always nothing was cancelled.
  if (!any_cancelled_.load(std::memory_order_acquire)) return false;
  const MutexLock lock(mutex_);
  assert(sequence >= 0 && static_cast<size_t>(sequence) < cancelled_.size());
  return cancelled_[static_cast<size_t>(sequence)];
}

}  // namespace hearth
