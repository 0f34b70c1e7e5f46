// The KV blocks of the layers with a window: which are free, used by slots, or kept for the prefix cache.
//
// A block that a slot has given up is kept if a node of the prefix cache owns it, until its memory is needed. What is kept
// is worth something only together with all blocks of the window before a place where a later prompt goes on. Such places
// are ends: of prompts, of finished sequences, and where texts that begin alike part. So blocks that lie between ends go
// first, then those at ends; of either kind the one that was used longest ago.
//
// A part of KvBlocks, which owns the nodes. Bookkeeping only. Engine thread.
//
// Invariants:
//  1. A block is free, or used by slots, or neither and owned by a node; only the last are in one of the two LRU lists.
//  2. A block that is owned by a node is owned by one node only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

class WindowPool {
 public:
  static constexpr int32_t kNone = -1;

  explicit WindowPool(int n_blocks);

  /// A block for one slot; evicts one if none is free. lost_by: the node that owned it; kNone: none did.
  struct Taken {
    int32_t id;
    int32_t lost_by;
  };
  /// REQUIRES: slots use fewer blocks than there are.
  Taken take();
  /// One more slot uses a block that a node owns.
  void use(int32_t id);
  /// One slot less uses it. The last one's block is kept if a node owns it, else free.
  void give_up(int32_t id);
  /// Makes the node own it. REQUIRES: no node does.
  void set_owner(int32_t id, int32_t node);
  /// Its node is gone, and no slot uses it: it is free.
  void disown(int32_t id);
  /// A later prompt may go on behind it: it is kept longer.
  void mark_end(int32_t id);

  int size() const { return static_cast<int>(blocks_.size()); }
  std::span<const int32_t> free() const { return free_; }  // blocks that hold nothing
  int n_kept() const { return between_.n + ends_.n; }      // blocks that only a node owns
  int n_refs(int32_t id) const { return blocks_[static_cast<size_t>(id)].refs; }
  int32_t owner(int32_t id) const { return blocks_[static_cast<size_t>(id)].node; }

 private:
  struct Block {
    int refs = 0;  // slots that use it
    int32_t node = kNone;
    bool is_end = false;
    int32_t older = kNone, newer = kNone;
  };
  struct Lru {
    int32_t oldest = kNone, newest = kNone;
    int n = 0;
  };

  Block& block(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  Lru& list_of(int32_t id) { return block(id).is_end ? ends_ : between_; }
  void push_newest(int32_t id);
  void unlink(int32_t id);

  std::vector<Block> blocks_;
  std::vector<int32_t> free_;  // a stack
  Lru between_, ends_;
};

}  // namespace hearth
