// Sizes of an attention window, counted in KV blocks. Layers with a window keep only the keys and values that
// a later token can see, so they need fewer KV blocks than layers that see everything.
//
// Sizes are in whole KV blocks, aligned to block boundaries: a sequence can continue after its last full KV
// block if the last blocks_before() full KV blocks are kept. Used at load, where KV blocks are reserved, and
// by KvBlocks and FixedBlocks, which assign KV blocks to sequences.
#pragma once

namespace hearth {

/// The separate KV blocks of the layers with a window, if the model has such layers.
struct KvWindow {
  /// Positions that a token sees, including its own position. 0: layers with a window have no separate KV
  /// blocks.
  int n_positions = 0;
  int n_blocks = 0;  // KV blocks in each layer with a window; 0 if n_positions is 0

  explicit operator bool() const { return n_positions > 0; }
};

/// Returns the maximum number of KV blocks before a block boundary that a token after the boundary sees.
constexpr int blocks_before(int window, int block_tokens) {
  return (window + block_tokens - 2) / block_tokens;
}

/// The maximum number of window blocks that a sequence holds at once. These are blocks_before() blocks that
/// end at the last block boundary, plus the blocks that a step of step_tokens tokens touches. The step may
/// begin in the middle of a block.
constexpr int blocks_at_once(int window, int step_tokens, int block_tokens) {
  return blocks_before(window, block_tokens) + (step_tokens + 2 * (block_tokens - 1)) / block_tokens;
}

/// Returns the maximum number of tokens of one sequence in a step. They are either a chunk of its prompt, or
/// its last token plus forced and draft tokens. Forced and draft tokens together are at most prefill_chunk
/// tokens (engine/serving/scheduler.h).
constexpr int longest_step(int prefill_chunk) { return prefill_chunk + 1; }

}  // namespace hearth
