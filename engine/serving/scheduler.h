// Which sequence gets a slot, and which tokens enter the next step. Pure logic: no model, no threads, no
// clock.
//
// Admission is first come, first served over sequences, a request's in order. Two exceptions. A sequence
// whose prompt a sibling of the same request is just computing is passed over until that is done, because it
// then finds the blocks in the prefix cache; later ones may go ahead meanwhile, and it is first for the next
// slot. And a sequence for which blocks are short holds up everyone behind it, because otherwise small ones
// would starve it.
//
// A step takes one token of every decoding sequence, whatever else there is: a long prompt slows running
// streams by one chunk per step and never stops them. The chunk is shared between prompts so: half goes to
// the one admitted first, the rest in order of what is left to do, least first. The second rule lets a short
// prompt pass a long one and is the best order for the mean time to the first token; the first bounds what
// that costs the long ones: whoever is oldest always moves at half speed, and everyone becomes the oldest in
// the end. No ageing constants to tune.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/serving/kv_blocks.h"
#include "engine/serving/sequence.h"

namespace hearth {

/// A piece of one sequence in a step: its tokens [begin, begin + n_tokens). Logits are wanted of the piece's
/// tokens [first_row, first_row + n_rows): of the last one if its successor is to be sampled, of all whose
/// successors are known if the prompt is scored, of none in the middle of a prompt.
struct StepPiece {
  int slot = 0;
  int begin = 0;
  int n_tokens = 0;
  int first_row = 0;
  int n_rows = 0;
};

struct SchedulerLimits {
  int n_slots = 0;
  int prefill_chunk = 0;   // prompt tokens of a step
  int max_tokens = 0;      // tokens of a step; >= n_slots
  int max_logit_rows = 0;  // logit rows of a step; >= n_slots
};

class Scheduler {
 public:
  /// The blocks must outlive the scheduler and be used by nobody else.
  Scheduler(SchedulerLimits limits, KvBlocks& blocks);

  /// Queues a sequence behind all others.
  void add(std::unique_ptr<Sequence> sequence);

  /// Puts waiting sequences into free slots, with blocks for the whole of prompt and max_tokens reserved, so
  /// that nothing can run out later. Calls on_admitted for each. Returns how many.
  int admit(const std::function<void(Sequence&)>& on_admitted);

  /// The next step's pieces: decoding sequences in slot order, then prompts; each slot at most once. Blocks
  /// for them are in the tables. Empty if and only if nothing runs. Valid until the next call. Fairness as
  /// said above.
  std::span<const StepPiece> next_step();

  /// Reports that a piece was computed: advances its sequence and hands full KV blocks to the prefix cache.
  void computed(const StepPiece& piece);

  /// Takes a sequence out of its slot and frees its blocks; keep as in KvBlocks::release.
  std::unique_ptr<Sequence> remove(int slot, bool keep_blocks);

  /// Takes every waiting sequence for which the predicate holds out of the queue, in order.
  std::vector<std::unique_ptr<Sequence>> remove_waiting(const std::function<bool(const Sequence&)>& which);

  /// [n_slots]; null where a slot is free.
  std::span<const std::unique_ptr<Sequence>> slots() const { return slots_; }
  bool idle() const { return n_running_ == 0 && waiting_.empty(); }
  int n_running() const { return n_running_; }
  int n_waiting() const { return static_cast<int>(waiting_.size()); }

 private:
  struct Budget {
    int tokens = 0;
    int rows = 0;
  };

  bool held_back(const Sequence& sequence) const;
  int free_slot() const;
  void take_decode(Budget& step);
  void take_prefill(Budget step);
  void grow(StepPiece& piece, Budget& budget) const;

  SchedulerLimits limits_;
  KvBlocks& blocks_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> slots_;  // [n_slots]
  std::vector<StepPiece> pieces_;                 // of the next step
  std::vector<StepPiece> prompts_;                // scratch of take_prefill
  int n_running_ = 0;
  uint64_t n_admitted_ = 0;
};

}  // namespace hearth
