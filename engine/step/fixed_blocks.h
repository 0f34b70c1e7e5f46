// Block tables for callers that run sequences without KvBlocks: each slot has its part of the KV blocks for good, and its
// sequence begins at position 0. No prefix cache.
//
// A slot's window blocks are a ring: the block that fell behind the window is the next one to be written to. So a sequence
// may go back only as far as the ring has not been overwritten.
//
// Used by the model that drafts, by measurements and by tests. Bookkeeping only; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/step/batch.h"

namespace hearth {

class FixedBlocks {
 public:
  /// Shares the model's KV blocks out evenly. Throws std::invalid_argument (one sentence) if a slot would have none.
  FixedBlocks(const StepLimits& limits, int n_slots);

  /// Sets the batch's tables; they must outlive the batch's use.
  void set_tables(Batch& batch) const;

  /// Positions that a slot's sequence can have.
  int max_positions() const { return max_blocks_ * block_tokens_; }
  /// The most tokens of one slot in a step.
  int max_step() const { return max_step_; }
  /// Whether a slot's sequence, of which n_reached positions have been written at most, can be cut off at n and go on.
  bool can_go_on(int n_reached, int n) const;

 private:
  int block_tokens_;
  int max_blocks_;
  int window_;  // 0: there are no window blocks
  int n_ring_;  // window blocks of a slot
  int max_step_;
  std::vector<int32_t> tables_, window_tables_;  // [n_slots, max_blocks]
};

}  // namespace hearth
