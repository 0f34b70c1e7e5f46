// See the header.
#include "engine/kv/snapshot_pool.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {

SnapshotPool::Taken SnapshotPool::take() {
  // Free snapshots come first, then owned ones by their worth.
  const auto rank = [](const Snapshot& one) { return std::pair(one.kind == Kind::kOwned, one.worth); };
  int32_t best = kNone;
  for (int32_t id = 0; id < size(); ++id) {
    if (snapshot(id).kind == Kind::kBeingMade) continue;
    if (best == kNone || rank(snapshot(id)) < rank(snapshot(best))) best = id;
  }
  if (best == kNone) return {};
  Snapshot& taken = snapshot(best);
  if (taken.kind == Kind::kOwned) evicted_worth_ = taken.worth;
  taken.kind = Kind::kBeingMade;
  taken.worth = 0;
  taken.unsaved = false;
  return {.id = best, .lost_by = std::exchange(taken.node, kNone)};
}

void SnapshotPool::set_owner(int32_t id, int32_t node, int n_saved) {
  assert(snapshot(id).kind == Kind::kBeingMade);
  snapshot(id) = {.kind = Kind::kOwned, .node = node, .n_saved = n_saved, .worth = evicted_worth_ + n_saved};
}

void SnapshotPool::use(int32_t id) {
  assert(snapshot(id).kind == Kind::kOwned);
  snapshot(id).worth = evicted_worth_ + snapshot(id).n_saved;
}

void SnapshotPool::free(int32_t id) { snapshot(id) = {}; }

int32_t SnapshotPool::first_unsaved() const {
  const auto first = std::ranges::find(snapshots_, true, &Snapshot::unsaved);
  return first == snapshots_.end() ? kNone : static_cast<int32_t>(first - snapshots_.begin());
}

int SnapshotPool::n_owned() const {
  return static_cast<int>(std::ranges::count(snapshots_, Kind::kOwned, &Snapshot::kind));
}

}  // namespace hearth
