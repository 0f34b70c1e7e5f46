// Block tables for callers that run sequences without KvBlocks: each slot permanently owns part of the KV
// blocks, and its sequence begins at position 0. No prefix cache.
//
// A slot's window blocks form a ring: the oldest block, which has left the window, is overwritten next. So a
// sequence can be truncated to a length only if the positions in the window before the new end are still in
// the ring.
//
// Used by the draft model, by measurements and by tests. This class does bookkeeping only; any thread may use
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/step/batch.h"

namespace hearth {

class FixedBlocks {
 public:
  /// Divides the model's KV blocks evenly between the slots. Throws std::invalid_argument (one sentence) if a
  /// slot would get no KV block.
  FixedBlocks(const StepLimits& limits, int n_slots);

  /// Sets the batch's block tables to this object's. This object must outlive their use by the batch.
  void set_tables(Batch& batch) const;

  /// Most positions of a slot's sequence.
  int max_positions() const { return max_blocks_ * block_tokens_; }
  /// Maximum number of tokens of one slot in a step.
  int max_step() const { return max_step_; }
  /// Whether the sequence of a slot can be truncated to n positions and continue. n_reached: the largest
  /// number of positions that the sequence has had.
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
