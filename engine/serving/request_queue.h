// The queue in front of the engine: it accepts or refuses requests, counts how many wait and run, and hands
// them from HTTP threads to the engine thread.
//
// One mutex guards the number of free slots and a list of entries. An entry is an accepted request with at
// least one sequence that has no slot yet. Entries are in order of arrival.
//
// An entry needs one slot for each of its sequences that has none, but at most n_slots. A request is covered
// if the free slots suffice for its own entry and for all entries before it. The engine thread admits a
// covered request soon, unless the KV blocks that the request needs are in use. This queue does not track KV
// blocks; while the needed KV blocks are in use, the slots stay free. All other requests wait for slots.
//
// A covered request is always accepted. Any other request is accepted if fewer than `capacity` uncovered
// requests wait, and if the prompts and logit_bias lists of all entries and of the new request take at most
// `most_bytes` bytes. One client cannot keep others out: if the queue is full, a client with fewer than
// capacity / n_clients waiting requests is still accepted, up to 125 % of capacity. If the pool has KV blocks
// for fewer contexts than there are slots, sequences may be set back: they give up their slots and wait
// again. Then the number of waiting requests can exceed `capacity` by up to n_slots.
//
// A slot is counted as free before anyone can read the FinishedEvent of its sequence. So when a client has
// its answer, the slot that its sequence used is already free.
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
#include "kernels/base/mutex.h"

namespace hearth {

class RequestQueue {
 public:
  /// Limit in bytes for the prompts and logit_bias lists of waiting requests, which clients can make large.
  static constexpr size_t kMostBytes = size_t{256} << 20;

  /// n_slots > 0; capacity >= 0: the number of requests that may wait for slots.
  RequestQueue(int n_slots, int capacity, size_t most_bytes = kMostBytes);

  struct Counts {
    int n_running = 0;  // sequences in slots
    int n_waiting = 0;  // requests that have sequences without a slot
  };

  // -- any thread --

  /// Accepts either all sequences of one request or none. Returns kStopping after close(), kQueueFull if too
  /// many requests wait, and nullopt if they were accepted. REQUIRES: not empty; all have the same
  /// request_id.
  std::optional<Refusal> push(std::vector<std::unique_ptr<Sequence>> sequences);
  /// From now on push() refuses every request.
  void close();
  /// Makes wait_for_work() return.
  void wake();
  Counts counts() const;
  /// Blocks until no request waits or runs. Returns false if the deadline passes first.
  bool wait_until_empty(std::chrono::steady_clock::time_point deadline) const;

  // -- engine thread --

  /// Blocks until there are new sequences, wake() is called or the timeout expires. Returns at once if wake()
  /// was called since the last wait.
  void wait_for_work(std::chrono::milliseconds timeout);
  /// Appends to `into` the sequences pushed since the last call.
  void take_new(std::vector<std::unique_ptr<Sequence>>& into);
  /// Reports that a sequence of this request got a slot.
  void admitted(uint64_t request_id);
  /// Reports that a sequence of this request was set back: it lost its slot and now waits ahead of all
  /// others.
  void set_back(uint64_t request_id);
  /// Reports that a sequence left its slot.
  void slot_freed();
  /// Reports that a waiting sequence of this request ended without getting a slot.
  void abandoned(uint64_t request_id);

 private:
  struct Entry {
    uint64_t request_id = 0, client = 0;
    int n_left = 0;    // sequences not yet in a slot
    size_t bytes = 0;  // sum over all its sequences
  };

  bool has_room(uint64_t client, size_t bytes) const HEARTH_REQUIRES(mutex_);

  void take_off(uint64_t request_id) HEARTH_REQUIRES(mutex_);

  const int n_slots_;
  const int capacity_;
  const size_t most_bytes_;
  mutable Mutex mutex_;
  std::condition_variable work_;           // new_ or woken_
  mutable std::condition_variable empty_;  // nothing waits and nothing runs
  std::deque<Entry> entries_ HEARTH_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Sequence>> new_ HEARTH_GUARDED_BY(mutex_);
  int n_free_ HEARTH_GUARDED_BY(mutex_);
  bool closed_ HEARTH_GUARDED_BY(mutex_) = false;
  bool woken_ HEARTH_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth
