// The sequences that wait for a slot, and the rule that picks the next one. Pure logic: no threads, no clock.
// Owned by the Scheduler.
//
// The next sequence is chosen in three steps:
// 1. Choose the client with the fewest slots; ties go to the client whose last turn is longest ago. So a
//    client with a thousand requests gets no more than its share, and clients that share one slot take turns.
// 2. Among the requests of that client, choose those with the lowest `priority` value. A priority does not
//    affect other clients.
// 3. Among those, choose the request with the fewest sequences in slots; ties go to the oldest request. So if
//    one request has a thousand texts, a later request waits only until one of these texts is finished, and
//    the long request always keeps a text in a slot. The sequences of a request are admitted in order.
// A sequence that was set back (scheduler.h) comes before all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/serving/sequence.h"

namespace hearth {

class WaitingList {
 public:
  using Slots = std::span<const std::unique_ptr<Sequence>>;  // null where a slot is free

  /// Adds a sequence at the end of its request. A new request goes to the end of the list.
  void add(std::unique_ptr<Sequence> sequence);
  /// Adds a sequence that was set back.
  void add_first(std::unique_ptr<Sequence> sequence);

  /// Returns the next sequence in turn; null if none waits or all are held back. held_back: returns whether a
  /// sequence must not be admitted yet; other sequences may be admitted meanwhile.
  Sequence* next(Slots slots, const std::function<bool(const Sequence&)>& held_back) const;
  /// Removes a sequence that next() returned, and counts its client's turn.
  std::unique_ptr<Sequence> take(const Sequence& sequence);
  /// Removes the sequences for which `which` is true, and returns them in order.
  std::vector<std::unique_ptr<Sequence>> remove(const std::function<bool(const Sequence&)>& which);

  bool empty() const { return n_sequences_ == 0; }
  int size() const { return n_sequences_; }

 private:
  struct Request {
    uint64_t id = 0, client = 0;
    int priority = 0;
    std::deque<std::unique_ptr<Sequence>> sequences;  // not empty between calls
  };

  void forget_turns();

  std::deque<Request> requests_;  // in order of arrival
  // For each client: the number of the client's last turn. Turns are numbered in order of time.
  std::unordered_map<uint64_t, uint64_t> turns_;
  uint64_t n_turns_ = 0;
  int n_sequences_ = 0;
};

}  // namespace hearth
