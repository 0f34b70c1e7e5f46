// See the header.
#include "engine/kv/window_pool.h"

#include <cassert>

namespace hearth {

WindowPool::WindowPool(int n_blocks) {
  blocks_.resize(static_cast<size_t>(n_blocks));
  free_.reserve(blocks_.size());
  for (int32_t id = n_blocks - 1; id >= 0; --id) free_.push_back(id);
}

WindowPool::Taken WindowPool::take() {
  Taken taken{.id = kNone, .lost_by = kNone};
  if (!free_.empty()) {
    taken.id = free_.back();
    free_.pop_back();
  } else {
    taken.id = between_.n > 0 ? between_.oldest : ends_.oldest;
    assert(taken.id != kNone);  // slots use fewer blocks than exist
    taken.lost_by = block(taken.id).node;
    unlink(taken.id);
  }
  block(taken.id) = Block{.refs = 1};
  return taken;
}

void WindowPool::use(int32_t id) {
  if (block(id).refs++ == 0) unlink(id);
}

void WindowPool::give_up(int32_t id) {
  Block& b = block(id);
  assert(b.refs > 0);
  if (--b.refs > 0) return;
  if (b.node == kNone) {
    free_.push_back(id);
  } else {
    push_newest(id);
  }
}

void WindowPool::set_owner(int32_t id, int32_t node) {
  assert(block(id).node == kNone);
  block(id).node = node;
}

void WindowPool::disown(int32_t id) {
  assert(block(id).refs == 0 && block(id).node != kNone);
  unlink(id);
  block(id) = Block{};
  free_.push_back(id);
}

void WindowPool::mark_end(int32_t id) {
  Block& b = block(id);
  if (b.is_end) return;
  const bool is_kept = b.refs == 0;
  if (is_kept) unlink(id);
  b.is_end = true;
  if (is_kept) push_newest(id);
}

void WindowPool::push_newest(int32_t id) {
  Lru& list = list_of(id);
  Block& b = block(id);
  b.older = list.newest;
  b.newer = kNone;
  (list.newest == kNone ? list.oldest : block(list.newest).newer) = id;
  list.newest = id;
  ++list.n;
}

void WindowPool::unlink(int32_t id) {
  Lru& list = list_of(id);
  const Block& b = block(id);
  (b.older == kNone ? list.oldest : block(b.older).newer) = b.newer;
  (b.newer == kNone ? list.newest : block(b.newer).older) = b.older;
  --list.n;
}

}  // namespace hearth
