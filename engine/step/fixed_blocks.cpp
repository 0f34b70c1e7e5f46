// See the header.
#include "engine/step/fixed_blocks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace hearth {

FixedBlocks::FixedBlocks(const StepLimits& limits, int n_slots)
    : block_tokens_(limits.block_tokens),
      max_blocks_(limits.n_blocks / n_slots),
      window_(limits.window.n_positions),
      n_ring_(limits.window.n_blocks / n_slots),
      max_step_(limits.max_tokens) {
  if (max_blocks_ < 1 || (limits.window && n_ring_ < 1)) {
    throw std::invalid_argument("The KV cache has " + std::to_string(limits.n_blocks) + " blocks, and " +
                                std::to_string(limits.window.n_blocks) +
                                " for layers with a window, too few for " + std::to_string(n_slots) +
                                " slots with blocks of their own.");
  }
  for (int slot = 0; slot < n_slots; ++slot) {
    for (int i = 0; i < max_blocks_; ++i) tables_.push_back(slot * max_blocks_ + i);
  }
  if (!limits.window) return;
  for (int slot = 0; slot < n_slots; ++slot) {
    for (int i = 0; i < max_blocks_; ++i) window_tables_.push_back(slot * n_ring_ + i % n_ring_);
  }
  // The longest step for which blocks_at_once() does not exceed the size of the ring.
  max_step_ = std::min(max_step_, (n_ring_ - blocks_before(window_, block_tokens_) - 1) * block_tokens_ + 1);
}

void FixedBlocks::set_tables(Batch& batch) const {
  batch.block_tables = tables_;
  batch.window_tables = window_tables_;
  batch.max_blocks = max_blocks_;
}

bool FixedBlocks::can_go_on(int n_reached, int n) const {
  if (window_ == 0 || n == 0) return true;
  const int first_seen = std::max(0, n + 1 - window_) / block_tokens_;
  const int first_there = (n_reached - 1) / block_tokens_ - n_ring_ + 1;
  return first_seen >= first_there;
}

}  // namespace hearth
