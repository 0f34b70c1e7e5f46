// Tracks the KV blocks of the layers with a window: free, used by slots, or kept for the prefix cache.
//
// When a slot gives up a block that a node of the prefix cache owns, the block is kept until its memory is
// needed. Kept blocks are useful only where a later prompt may continue, and only if the whole window before
// that position is kept. Such positions are called ends: the ends of prompts, the ends of finished sequences,
// and the points where texts with a common prefix diverge. So blocks between ends are evicted before blocks
// at ends. Within each kind, the least recently used block goes first.
//
// Part of KvBlocks, which owns the nodes. This class does bookkeeping only, on the engine thread.
//
// Invariants:
// 1. A block is free, used by slots, or unused and owned by a node. Only blocks of the last kind are in one
//    of the two LRU lists.
// 2. At most one node owns a block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

class WindowPool {
 public:
  static constexpr int32_t kNone = -1;

  explicit WindowPool(int n_blocks);

  /// The block that take() gives to a slot. lost_by: the node that owned the block until take() evicted it;
  /// kNone if the block had no owner.
  struct Taken {
    int32_t id;
    int32_t lost_by;
  };
  /// REQUIRES: slots use fewer blocks than exist.
  Taken take();
  /// Records that one more slot uses the block, which a node owns.
  void use(int32_t id);
  /// Records that a slot no longer uses the block. When no slot is left, the block is kept if a node owns it;
  /// otherwise it becomes free.
  void give_up(int32_t id);
  /// Makes the node own the block. REQUIRES: no node owns it.
  void set_owner(int32_t id, int32_t node);
  /// Frees a block whose node is gone. REQUIRES: no slot uses it.
  void disown(int32_t id);
  /// Marks the block as an end (a later prompt may continue after it), so that it is kept longer.
  void mark_end(int32_t id);

  int size() const { return static_cast<int>(blocks_.size()); }
  std::span<const int32_t> free() const { return free_; }  // blocks that hold nothing
  int n_kept() const { return between_.n + ends_.n; }      // blocks that only a node still holds
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
