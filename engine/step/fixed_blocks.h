// Block tables for callers that run sequences without KvBlocks: each slot permanently owns part of the KV
// blocks, and its sequence begins at position 0. No prefix cache.
//
// A slot's window blocks form a ring: the block that fell behind the window is written next. So a sequence
// can be cut back only as far as the ring has not been overwritten.
//
// Used by the draft model, by measurements and by tests. Bookkeeping only; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/step/batch.h"

namespace hearth {

class FixedBlocks {
 public:
  /// Divides the model's KV blocks evenly. Throws std::invalid_argument (one sentence) if a slot would get
  /// none.
  FixedBlocks(const StepLimits& limits, int n_slots);

  /// Sets the batch's tables. This object must outlive their use by the batch.
  void set_tables(Batch& batch) const;

  /// Most positions of a slot's sequence.
  int max_positions() const { return max_blocks_ * block_tokens_; }
  /// Most tokens of one slot in a step.
  int max_step() const { return max_step_; }
  /// Whether a slot's sequence, with at most n_reached positions written, can be cut back to n positions and
  /// continue.
  bool can_go_on(int n_reached, int n) const;

 private:
  int block_tokens_;
  int max_blocks_;
  int window_;  // 0: there are no window blocks
  int n_ring_;  // window blocks per slot
  int max_step_;
  std::vector<int32_t> tables_, window_tables_;  // [n_slots, max_blocks]
};

}  // namespace hearth
