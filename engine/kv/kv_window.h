// Sizes of a window in KV blocks. Layers with a window keep only what a later token can see, so they have fewer KV
// blocks than the layers that see everything.
//
// All is counted in whole blocks from a block's boundary: a sequence of which n blocks are full goes on from there if
// it has blocks_before() of the last of them. Used where KV blocks are reserved, at load, and where they are assigned.
#pragma once

namespace hearth {

/// The KV blocks of those layers of a model that have a window, if they have KV blocks of their own.
struct KvWindow {
  int n_positions =
      0;  // that a token sees, its own included; 0: these layers have the same KV blocks as all others
  int n_blocks = 0;  // of each of these layers

  explicit operator bool() const { return n_positions > 0; }
};

/// Blocks before a block's first position that a token from there on may see, at most.
constexpr int blocks_before(int window, int block_tokens) {
  return (window + block_tokens - 2) / block_tokens;
}

/// The most blocks that a sequence holds at once: those before its last full block's end, and those of a step of
/// step_tokens, which may begin amid a block.
constexpr int blocks_at_once(int window, int step_tokens, int block_tokens) {
  return blocks_before(window, block_tokens) + (step_tokens + 2 * (block_tokens - 1)) / block_tokens;
}

/// The most tokens of a sequence in one step: a chunk of its prompt; or its last token, and forced and drafted ones that get
/// what room a chunk would have had (engine/serving/scheduler.h).
constexpr int longest_step(int prefill_chunk) { return prefill_chunk + 1; }

}  // namespace hearth
