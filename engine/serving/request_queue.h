// The queue in front of the engine: it accepts or refuses requests, counts how many wait and run, and hands them
// from HTTP threads to the engine thread.
//
// One mutex guards one ledger, so that what a submitter is told is true at one moment:
//   free   slots no sequence is in
//   entry  one per accepted request that is not wholly admitted, in order of arrival, with its sequences
//   still to admit
// Walking the entries in order and adding up their sequences (a request with more of them than there are
// slots counts as filling the machine), those the free slots cover do not wait: the engine thread is about to
// take them. All others do. A new request comes in if the free slots cover it too, or if fewer than
// `capacity` others wait. A slot counts as free before the FinishedEvent of the sequence that left it can be
// seen, so a client that has its answer finds the room it has given up.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/serving/request.h"
#include "engine/serving/sequence.h"
#include "kernels/mutex.h"

namespace hearth {

class RequestQueue {
 public:
  /// n_slots > 0; capacity >= 0: requests that wait, at most.
  RequestQueue(int n_slots, int capacity);

  struct Counts {
    int n_running = 0;  // sequences in slots
    int n_waiting = 0;  // requests not wholly admitted
  };

  // -- any thread --

  /// Takes all sequences of one request (not empty, same request_id) or none: kStopping after close(),
  /// kQueueFull.
  std::optional<Refusal> push(std::vector<std::unique_ptr<Sequence>> sequences);
  /// Makes push() refuse from now on.
  void close();
  /// Makes wait_for_work() return.
  void wake();
  Counts counts() const;
  /// Blocks until no request waits or runs. Returns false if the deadline came first.
  bool wait_until_empty(std::chrono::steady_clock::time_point deadline) const;

  // -- engine thread --

  /// Blocks until push() or wake() is called, or was since the last wait; at most for the timeout.
  void wait_for_work(std::chrono::milliseconds timeout);
  /// Appends the sequences pushed since the last call to `into`.
  void take_new(std::vector<std::unique_ptr<Sequence>>& into);
  /// Reports that a sequence got a slot; that a slot became free; that a sequence left without having had one.
  void admitted(uint64_t request_id);
  void slot_freed();
  void abandoned(uint64_t request_id);

 private:
  struct Entry {
    uint64_t request_id = 0;
    int n_left = 0;  // sequences not yet in a slot
  };

  void take_off(uint64_t request_id) HEARTH_REQUIRES(mutex_);

  const int n_slots_;
  const int capacity_;
  mutable Mutex mutex_;
  std::condition_variable work_;           // new_ or woken_
  mutable std::condition_variable empty_;  // nothing waits, nothing runs
  std::deque<Entry> entries_ HEARTH_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Sequence>> new_ HEARTH_GUARDED_BY(mutex_);
  int n_free_ HEARTH_GUARDED_BY(mutex_);
  bool closed_ HEARTH_GUARDED_BY(mutex_) = false;
  bool woken_ HEARTH_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth
