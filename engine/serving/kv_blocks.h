// Decides which KV block holds which positions of which sequence, and which KV blocks of finished sequences
// are reused.
//
// The KV cache is a fixed number of blocks of block_tokens positions. A slot's table lists its blocks in
// order of position. Blocks that are full enter a prefix cache, a tree in which a block's place is its parent
// and its own tokens: equal prefixes are equal paths, so a hit is never a matter of a hash alone. Blocks that
// no slot uses stay in that tree until their room is needed, the least recently used first. (Paged attention:
// Kwon et al. 2023; prefix tree: Zheng et al. 2024.)
//
// Pure bookkeeping: no memory of keys and values here. Used by the scheduler, on the engine thread only.
//
// Invariants:
//  1. A slot that uses a registered block uses all its ancestors: so a block in use never has an unused
//  parent.
//  2. Unused registered blocks are in the LRU list, children before (older than) their parents: so the oldest
//  is
//     always a leaf, and evicting from the old end never cuts a path that could still be walked.
//  3. free + unused registered >= promised: what was promised to a running sequence can always be taken.
//  4. Only blocks that are full are registered or shared, and nobody writes to a full block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

class KvBlocks {
 public:
  /// max_blocks: entries of one slot's table. All > 0.
  KvBlocks(int n_blocks, int block_tokens, int n_slots, int max_blocks);

  /// Promises an empty slot enough blocks for n_positions, and if reuse is set starts its table with the
  /// longest cached prefix of the prompt, at most prompt.size() - 1 tokens of it, so that the last token is
  /// always computed. Returns how many prompt tokens the slot has got that way, a multiple of block_tokens;
  /// nullopt, with nothing changed, if so many blocks cannot be promised now. REQUIRES: the slot is empty;
  /// prompt not empty; prompt.size() <= n_positions <= max_blocks * block_tokens.
  std::optional<int> reserve(int slot, std::span<const int32_t> prompt, int n_positions, bool reuse);

  /// Makes sure positions 0..n_positions-1 of the slot have blocks. Cannot fail within what reserve()
  /// promised.
  void extend(int slot, int n_positions);

  /// Says that keys and values of these tokens, the slot's sequence from position 0, are computed. Blocks
  /// that became full enter the prefix cache; one that is there already, computed by another sequence
  /// meanwhile, replaces the slot's own copy, which becomes free.
  void commit(int slot, std::span<const int32_t> tokens);

  /// Empties the slot. keep: its full blocks stay for later prompts; otherwise those that nobody else uses or
  /// descends from are forgotten (their contents are in doubt).
  void release(int slot, bool keep);

  /// [n_slots, max_blocks] block ids, -1 where a slot has none. The span stays valid; its contents change.
  std::span<const int32_t> tables() const { return tables_; }
  int max_blocks() const { return max_blocks_; }
  int block_tokens() const { return block_tokens_; }

  int n_free() const { return static_cast<int>(free_.size()); }  // hold nothing
  int n_unused_cached() const { return n_unused_; }              // hold a prefix nobody uses now
  int n_promised() const { return n_promised_; }  // of those two, spoken for by running sequences
  int n_refs(int block) const { return blocks_[static_cast<size_t>(block)].refs; }

 private:
  static constexpr int32_t kNone = -1;

  struct Block {
    int refs = 0;  // slots whose table lists it
    bool registered = false;
    int32_t parent = kNone;  // registered only; kNone: holds a sequence's first tokens
    int n_children = 0;
    uint64_t hash = 0;  // of the whole prefix up to this block's end
    int32_t next_in_bucket = kNone;
    int32_t older = kNone, newer = kNone;  // LRU list, if unused and registered
  };
  struct Slot {
    int n_blocks = 0;     // entries of its table in use
    int n_committed = 0;  // of those, registered
    int n_promised = 0;   // blocks it may still take
  };

  Block& block(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  int32_t* table(int slot) {
    return tables_.data() + static_cast<size_t>(slot) * static_cast<size_t>(max_blocks_);
  }
  std::span<int32_t> tokens_of(int32_t id);
  uint64_t prefix_hash(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  int32_t find(int32_t parent, uint64_t hash, std::span<const int32_t> tokens);
  void register_block(int32_t id, int32_t parent, uint64_t hash, std::span<const int32_t> tokens);
  void unregister_block(int32_t id);
  int32_t take();        // a free block, evicting the oldest unused one if there is none
  void use(int32_t id);  // one more slot uses it
  void push_newest(int32_t id);
  void unlink(int32_t id);

  int block_tokens_ = 0;
  int max_blocks_ = 0;
  std::vector<Block> blocks_;     // [n_blocks]
  std::vector<int32_t> tokens_;   // [n_blocks, block_tokens], of registered blocks
  std::vector<int32_t> buckets_;  // heads of the hash chains; a power of two of them
  std::vector<int32_t> free_;     // a stack
  std::vector<Slot> slots_;       // [n_slots]
  std::vector<int32_t> tables_;   // [n_slots, max_blocks]
  int32_t oldest_ = kNone, newest_ = kNone;
  int n_unused_ = 0;
  int n_promised_ = 0;
};

}  // namespace hearth
