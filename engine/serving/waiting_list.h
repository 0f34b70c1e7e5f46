// The sequences that wait for a slot, and whose turn it is. Pure logic: no threads, no clock; of the scheduler.
//
// Slots are shared out in three levels, and at each the one that has the fewest slots comes first:
//   1. among clients; among equal ones the one that has not had a turn for longest. So a client with a thousand requests
//      takes no more than another's share, and with one slot they take turns.
//   2. within a client, requests of lower `priority` come first. A priority takes no other client's turn.
//   3. among those of one priority, the request with the fewest sequences in slots; among equals the one that came first.
//      So whoever comes behind a list of a thousand texts waits until one of them is done, not all; and the list always has
//      one in a slot. The sequences of a request come in their order.
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

  /// Adds a sequence behind all others of its request, and the request behind all others.
  void add(std::unique_ptr<Sequence> sequence);
  /// Adds a sequence that was set back.
  void add_first(std::unique_ptr<Sequence> sequence);

  /// The sequence whose turn it is; null if all are held back, or none waits. held_back: whether a sequence must not be
  /// admitted yet; others may be admitted meanwhile.
  Sequence* next(Slots slots, const std::function<bool(const Sequence&)>& held_back) const;
  /// Takes out a sequence that next() gave, and counts its client's turn.
  std::unique_ptr<Sequence> take(const Sequence& sequence);
  /// Takes out those for which `which` is true, in order.
  std::vector<std::unique_ptr<Sequence>> remove(const std::function<bool(const Sequence&)>& which);

  bool empty() const { return n_sequences_ == 0; }
  int size() const { return n_sequences_; }

 private:
  struct Request {
    uint64_t id = 0, client = 0;
    int priority = 0;
    std::deque<std::unique_ptr<Sequence>> sequences;  // not empty, but within a call
  };

  void forget_turns();

  std::deque<Request> requests_;                  // in order of arrival
  std::unordered_map<uint64_t, uint64_t> turns_;  // by client: the number of its last turn, ascending
  uint64_t n_turns_ = 0;
  int n_sequences_ = 0;
};

}  // namespace hearth
