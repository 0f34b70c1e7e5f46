// Tracks the snapshots of recurrent states: free, being made, or owned by a node of the prefix cache.
//
// A recurrent state cannot be cut like keys and values, so a prompt can reuse a cached prefix only up to a
// node that owns a snapshot. A snapshot has megabytes, so there are few. If a new one needs memory, the
// snapshot with the lowest worth goes. A snapshot's worth is set when it is made and whenever it is used: the
// number of tokens that must be computed again without it, plus the worth of the snapshot that was evicted
// last. So a snapshot that saves many tokens stays longer, but not forever (GreedyDual-Size with equal sizes:
// Cao, Irani 1997).
//
// Part of KvBlocks, which owns the nodes. This class does bookkeeping only, on the engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

class SnapshotPool {
 public:
  static constexpr int32_t kNone = -1;

  explicit SnapshotPool(int n_snapshots) : snapshots_(static_cast<size_t>(n_snapshots)) {}

  /// The snapshot that take() gives to a slot. id is kNone if take() found none, because all snapshots are
  /// being made. lost_by: the node that owned the snapshot until now; kNone if it was free.
  struct Taken {
    int32_t id = kNone;
    int32_t lost_by = kNone;
  };
  /// The snapshot is being made until set_owner() or free() is called.
  Taken take();
  /// n_saved: tokens that must be computed again without this snapshot.
  void set_owner(int32_t id, int32_t node, int n_saved);
  /// Raises the worth of a snapshot that has just been used.
  void use(int32_t id);
  void free(int32_t id);

  int size() const { return static_cast<int>(snapshots_.size()); }
  int n_owned() const;

  /// Marks an owned snapshot as one that should be copied to disk, or as copied.
  void set_unsaved(int32_t id, bool unsaved) { snapshot(id).unsaved = unsaved; }
  /// Returns a snapshot that is marked so; kNone if there is none.
  int32_t first_unsaved() const;
  /// The node that owns the snapshot. REQUIRES: it is owned.
  int32_t owner(int32_t id) const { return snapshots_[static_cast<size_t>(id)].node; }

 private:
  enum class Kind : uint8_t { kFree, kBeingMade, kOwned };
  struct Snapshot {
    Kind kind = Kind::kFree;
    int32_t node = kNone;
    int n_saved = 0;
    int64_t worth = 0;
    bool unsaved = false;
  };
  Snapshot& snapshot(int32_t id) { return snapshots_[static_cast<size_t>(id)]; }

  std::vector<Snapshot> snapshots_;
  int64_t evicted_worth_ = 0;
};

}  // namespace hearth
