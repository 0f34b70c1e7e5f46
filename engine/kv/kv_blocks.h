// Assigns KV blocks to the positions of sequences, and reuses the KV blocks of finished sequences. In this
// file, "block" always means KV block.
//
// The KV cache has a fixed number of blocks of block_tokens positions. A slot's block table lists its blocks
// in order of position. Full blocks are registered in the prefix cache. The prefix cache is a tree: a block's
// parent is the preceding block of its sequence, so sequences with equal prefixes share one path. A lookup
// compares parents and tokens, so a hash collision never gives a false hit. Blocks that no slot uses stay in
// the tree until their memory is needed; the least recently used block is evicted first. (Paged attention:
// Kwon et al. 2023; prefix tree: Zheng et al. 2024.)
//
// Layers with an attention window may have separate KV blocks, called window blocks, with separate block
// tables. A slot gives up a window block as soon as no later token of the sequence sees it, so a slot holds
// only a few at once. In the prefix cache, a block owns the window block of its tokens until that window
// block is evicted (window_pool.h decides which are kept longest). A prompt can reuse a cached prefix only if
// all window blocks that the next token sees are still kept; it reuses the longest such prefix.
//
// In models with recurrent layers, a registered block may own a snapshot of the states after its tokens. A
// prompt can reuse a cached prefix only if the prefix ends with such a block (snapshot_pool.h).
//
// This class does bookkeeping only; KvMemory holds the keys and values. The scheduler uses it, only on the
// engine thread.
//
// Invariants:
// 1. A slot that uses a registered block uses all its ancestors. So the parent of a used block is used.
// 2. Registered blocks that no slot uses are in the LRU list. In this list, every block comes closer to the
//    oldest end than its parent. So the oldest block is a leaf of the tree, and evicting it cuts no path.
// 3. n_free() + n_unused_cached() >= n_promised(). So a promised block can always be allocated.
// 4. Only full blocks are registered or shared, and nothing writes to a full block.
// 5. All slots together are promised at most as many window blocks as exist, and no slot holds more than it
//    is promised; shared window blocks count once per slot. So a promised window block can always be
//    allocated.
// 6. A slot that uses the window block of a registered block also uses the registered block. An unregistered
//    block owns no window block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv/kv_window.h"
#include "engine/kv/snapshot_pool.h"
#include "engine/kv/window_pool.h"

namespace hearth {

class KvBlocks {
 public:
  /// max_blocks: entries in one slot's block table. All arguments must be above 0.
  KvBlocks(int n_blocks, int block_tokens, int n_slots, int max_blocks)
      : KvBlocks(n_blocks, block_tokens, n_slots, max_blocks, {}, 0) {}
  /// For a model with window blocks. step_tokens: the maximum number of positions that extend() adds beyond
  /// the computed positions. REQUIRES: window.n_blocks >= blocks_at_once() for these arguments.
  /// n_snapshots: snapshots of recurrent states; 0: the model has no recurrent layers.
  KvBlocks(int n_blocks, int block_tokens, int n_slots, int max_blocks, KvWindow window, int step_tokens,
           int n_snapshots = 0);

  /// Promises an empty slot enough blocks for n_positions positions. If `reuse` is true, the slot's table
  /// starts with the longest cached prefix of the prompt; this prefix never includes the prompt's last token,
  /// which must be computed. Returns how many prompt tokens came from the prefix cache, a multiple of
  /// block_tokens. Returns nullopt and changes nothing if that many blocks cannot be promised now. REQUIRES:
  /// the slot is empty; prompt not empty; prompt.size() <= n_positions <= max_blocks * block_tokens.
  std::optional<int> reserve(int slot, std::span<const int32_t> prompt, int n_positions, bool reuse);

  /// Returns the length of the longest prefix that a slot's prompt has in common with a text in the prefix
  /// cache, in tokens. reserve() finds it if `reuse` is true. It may be longer than the prefix that reserve()
  /// returned, which consists of whole blocks.
  int n_matched(int slot) const { return slots_[static_cast<size_t>(slot)].n_matched; }

  /// Raises the promise of a non-empty slot to n_positions in all. Returns false and changes nothing if that
  /// many blocks cannot be promised now. REQUIRES: n_positions <= max_blocks * block_tokens.
  bool promise_more(int slot, int n_positions);
  /// Positions for which the slot has blocks or a promise.
  int n_promised_positions(int slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    return (s.n_blocks + s.n_promised) * block_tokens_;
  }

  /// Gives the slot blocks for positions 0..n_positions-1. Cannot fail. REQUIRES: n_positions <=
  /// n_promised_positions(slot); if there are window blocks, at most step_tokens of the positions are not yet
  /// computed (see reserve(), commit(), move_on()).
  void extend(int slot, int n_positions);

  /// Reports that the keys and values of `tokens` are computed; `tokens` is the slot's sequence from position
  /// 0. Registers the blocks that became full. If another sequence has meanwhile registered an equal block,
  /// the slot switches to that block and frees its own. Then calls move_on().
  void commit(int slot, std::span<const int32_t> tokens);

  /// Reports that n_computed positions of the slot's sequence are computed, and gives up the window blocks
  /// that no later position sees. Window blocks whose tokens were never committed become free.
  void move_on(int slot, int n_computed);

  /// Returns the snapshot from which a slot's states continue, if its table starts with a cached prefix; else
  /// kNone. It may be evicted by the next call of take_snapshot().
  int32_t first_snapshot(int slot) const { return slots_[static_cast<size_t>(slot)].first_snapshot; }
  /// Returns a snapshot that the caller then makes in a step; SnapshotPool::kNone if none can be had now.
  int32_t take_snapshot();
  /// Makes the block that ends after n_positions of the slot's sequence the owner of this finished snapshot.
  /// Frees the snapshot instead if that block is not registered or already owns one. `passing`: the next
  /// passing snapshot of this slot replaces this one. REQUIRES: n_positions is a positive multiple of
  /// block_tokens.
  void keep_snapshot(int slot, int n_positions, int32_t snapshot, bool passing);

  /// Empties the slot. If `keep` is true, its full blocks stay in the prefix cache. If it is false (the
  /// contents are in doubt), blocks that no other slot uses and that have no children in the tree become
  /// free.
  void release(int slot, bool keep);

  /// From now on, registered blocks and snapshots count as unsaved until mark_saved() is called for them or
  /// they leave the prefix cache. For a copy of the prefix cache on disk (engine/serving/disk_prefixes.h).
  void track_unsaved() { tracks_unsaved_ = true; }
  /// The unsaved block that was registered first, so its parent is saved; -1 if there is none.
  int32_t first_unsaved() const { return first_unsaved_; }
  void mark_saved(int32_t block);
  bool is_unsaved(int32_t block) const { return blocks_[static_cast<size_t>(block)].unsaved; }
  /// Returns a block that owns an unsaved snapshot; -1 if there is none. Ignores each slot's latest passing
  /// snapshot, which the next one would replace, until the slot is released.
  int32_t first_unsaved_state() const;
  void mark_state_saved(int32_t block);
  /// The preceding block and the tokens of a registered block; the parent of a first block is -1.
  int32_t parent_of(int block) const { return blocks_[static_cast<size_t>(block)].parent; }
  std::span<const int32_t> registered_tokens(int32_t block) const;

  /// [n_slots, max_blocks] block ids, -1 where a slot has no block. The span stays valid while its contents
  /// change.
  std::span<const int32_t> tables() const { return tables_; }
  /// Like tables(), but for window blocks; an entry is also -1 if the slot has given its window block up.
  /// Empty if there are no window blocks.
  std::span<const int32_t> window_tables() const { return window_tables_; }
  int max_blocks() const { return max_blocks_; }
  int block_tokens() const { return block_tokens_; }

  int n_free() const { return static_cast<int>(free_.size()); }  // blocks that hold nothing
  int n_unused_cached() const { return n_unused_; }              // registered blocks that no slot uses
  /// Number of free blocks and unused cached blocks that are promised.
  int n_promised() const { return n_promised_; }
  int n_refs(int block) const { return blocks_[static_cast<size_t>(block)].refs; }
  bool is_registered(int block) const { return blocks_[static_cast<size_t>(block)].registered; }
  /// The window block that a registered block owns; -1 if it owns none.
  int32_t window_of(int block) const { return blocks_[static_cast<size_t>(block)].window; }
  /// The snapshot that a registered block owns; -1 if it owns none.
  int32_t snapshot_of(int block) const { return blocks_[static_cast<size_t>(block)].snapshot; }
  const SnapshotPool& snapshot_pool() const { return snapshots_; }
  const WindowPool& window_pool() const { return window_; }
  int n_window_promised() const { return n_window_promised_; }  // window blocks promised to running sequences

 private:
  static constexpr int32_t kNone = WindowPool::kNone;

  struct Block {
    int refs = 0;             // slots whose table lists it
    bool registered = false;  // in the prefix cache
    /// The preceding block of the sequence, for registered blocks only; kNone if the block holds a sequence's
    /// first tokens.
    int32_t parent = kNone;
    int n_children = 0;
    int32_t window = kNone;    // registered only: its window block
    int32_t snapshot = kNone;  // registered only
    uint64_t hash = 0;         // hash of the whole prefix up to this block's end
    int32_t next_in_bucket = kNone;
    int32_t older = kNone, newer = kNone;  // neighbors in the LRU list, if the block is in it
    bool unsaved = false;
    int32_t unsaved_before = kNone, unsaved_after = kNone;  // neighbors in the list of unsaved blocks
  };
  struct Slot {
    int n_blocks = 0;           // entries of its table in use
    int n_committed = 0;        // registered blocks among n_blocks
    int n_promised = 0;         // blocks that it may still take
    int n_prompt = 0;           // blocks of its prompt that a later, equal prompt could reuse
    int n_given_up = 0;         // window table entries before this index are empty
    int n_window_promised = 0;  // window blocks that the slot may hold at once
    int n_matched = 0;
    int32_t first_snapshot = kNone;
    // The slot's last passing snapshot, and the block that owned it first.
    int32_t passing_snapshot = kNone, passing = kNone;
  };

  Block& block(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  int32_t* table(int slot) {
    return tables_.data() + static_cast<size_t>(slot) * static_cast<size_t>(max_blocks_);
  }
  int32_t* window_table(int slot) {
    return window_tables_.data() + static_cast<size_t>(slot) * static_cast<size_t>(max_blocks_);
  }
  bool has_window() const { return window_.size() > 0; }
  int n_window_needed(int n_positions) const;
  int n_saved_by(int slot, int index) const;
  void free_snapshot(Block& block);
  struct Prefix {
    int n_blocks = 0;             // reusable
    int n_walked = 0;             // blocks with the prompt's tokens, reusable or not
    int32_t last_walked = kNone;  // the last of these blocks
  };
  Prefix find_prefix(std::span<const int32_t> prompt, int32_t* row);
  int n_matched_after(int32_t parent, std::span<const int32_t> tokens) const;
  void take_window_block(int slot, int index);
  void register_window_block(int slot, int index);
  void mark_end(int slot, int n_blocks);
  std::span<int32_t> tokens_of(int32_t id);
  void add_unsaved(int32_t id);
  uint64_t prefix_hash(int32_t parent, std::span<const int32_t> tokens) const;
  int32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  int32_t find(int32_t parent, uint64_t hash, std::span<const int32_t> tokens);
  void register_block(int32_t id, int32_t parent, uint64_t hash, std::span<const int32_t> tokens);
  void unregister_block(int32_t id);
  int32_t take();        // returns a free block; if none is free, evicts the oldest unused one
  void use(int32_t id);  // counts one more slot that uses it
  void push_newest(int32_t id);
  void unlink(int32_t id);

  int block_tokens_ = 0;
  int max_blocks_ = 0;
  std::vector<Block> blocks_;     // [n_blocks]
  std::vector<int32_t> tokens_;   // [n_blocks, block_tokens], for registered blocks
  std::vector<int32_t> buckets_;  // heads of the hash chains; the number of heads is a power of two
  std::vector<int32_t> free_;     // a stack
  std::vector<Slot> slots_;       // [n_slots]
  std::vector<int32_t> tables_;   // [n_slots, max_blocks]
  int32_t oldest_ = kNone, newest_ = kNone;
  int n_unused_ = 0;
  int n_promised_ = 0;

  WindowPool window_;                   // empty: there are no window blocks
  int n_before_ = 0;                    // blocks_before()
  int n_at_once_ = 0;                   // blocks_at_once()
  std::vector<int32_t> window_tables_;  // [n_slots, max_blocks], or empty
  int n_window_promised_ = 0;
  SnapshotPool snapshots_;  // empty: there are no recurrent layers

  bool tracks_unsaved_ = false;
  int32_t first_unsaved_ = kNone, last_unsaved_ = kNone;  // a list in order of registration
};

}  // namespace hearth
