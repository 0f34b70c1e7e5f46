// The channel of one request from the engine thread to the HTTP thread that answers it.
//
// The engine thread pushes events and never blocks; the request's token limits bound the number of queued
// events. Any thread may cancel. The engine notices this within one step and still pushes a FinishedEvent for
// every sequence.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <optional>
#include <vector>

#include "engine/serving/request.h"
#include "kernels/base/mutex.h"

namespace hearth {

class TokenStream {
 public:
  explicit TokenStream(int n_sequences);

  /// Engine thread. Appends an event and wakes the reader.
  void push(StreamEvent event);

  /// HTTP thread. Returns the next event, or nullopt if none arrived within the timeout; the caller can then
  /// check whether the client is still connected and call again.
  std::optional<StreamEvent> pop_for(std::chrono::milliseconds timeout);

  /// Cancels the whole request, or one of its sequences (for example because a stop string was found). Any
  /// thread; idempotent.
  void cancel();
  void cancel_sequence(int sequence);

  /// Engine thread. Whether this sequence was cancelled, alone or with its request.
  bool cancelled(int sequence) const;

 private:
  mutable Mutex mutex_;
  std::condition_variable ready_;
  std::deque<StreamEvent> events_ HEARTH_GUARDED_BY(mutex_);
  std::vector<bool> cancelled_ HEARTH_GUARDED_BY(mutex_);
  std::atomic<bool> any_cancelled_{false};  // while this is false, cancelled() need not take the mutex
};

}  // namespace hearth
