// Sizes of an attention window in KV blocks. Layers with a window keep only what a later token can see, so
// they need fewer KV blocks than layers that see everything.
//
// Sizes are in whole blocks, aligned to block boundaries: a sequence with n full blocks can continue from
// there if the last blocks_before() of them are kept. Used at load, where KV blocks are reserved, and where
// they are assigned.
#pragma once

namespace hearth {

/// The separate KV blocks of a model's layers with a window, if they have any.
struct KvWindow {
  int n_positions =
      0;  // positions that a token sees, its own included; 0: these layers share the KV blocks of the others
  int n_blocks = 0;  // KV blocks in each layer with a window

  explicit operator bool() const { return n_positions > 0; }
};

/// The most blocks before a block's first position that a token at or after that position may see.
constexpr int blocks_before(int window, int block_tokens) {
  return (window + block_tokens - 2) / block_tokens;
}

/// The most blocks that a sequence holds at once: those visible at its last full block's end, plus those of a
/// step of step_tokens, which may begin in the middle of a block.
constexpr int blocks_at_once(int window, int step_tokens, int block_tokens) {
  return blocks_before(window, block_tokens) + (step_tokens + 2 * (block_tokens - 1)) / block_tokens;
}

/// The most tokens of one sequence in a step: a chunk of its prompt, or its last token plus forced and draft
/// tokens that fill the room of a chunk (engine/serving/scheduler.h).
constexpr int longest_step(int prefill_chunk) { return prefill_chunk + 1; }

}  // namespace hearth
