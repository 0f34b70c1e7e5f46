// KV block tables and the prefix cache. The invariants are in the header.
#include "engine/kv/kv_blocks.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace hearth {

KvBlocks::KvBlocks(int n_blocks, int block_tokens, int n_slots, int max_blocks, KvWindow window,
                   int step_tokens, int n_snapshots)
    : block_tokens_(block_tokens),
      max_blocks_(max_blocks),
      window_(window ? window.n_blocks : 0),
      n_before_(window ? blocks_before(window.n_positions, block_tokens) : 0),
      n_at_once_(window ? blocks_at_once(window.n_positions, step_tokens, block_tokens) : 0),
      snapshots_(n_snapshots) {
  assert(n_blocks > 0 && block_tokens > 0 && n_slots > 0 && max_blocks > 0);
  assert(!window || window.n_blocks >= std::min(n_at_once_, max_blocks));
  const size_t n = static_cast<size_t>(n_blocks);
  blocks_.resize(n);
  tokens_.resize(n * static_cast<size_t>(block_tokens));
  buckets_.assign(std::bit_ceil(n), kNone);
  slots_.resize(static_cast<size_t>(n_slots));
  tables_.assign(static_cast<size_t>(n_slots) * static_cast<size_t>(max_blocks), kNone);
  if (has_window()) window_tables_ = tables_;
  free_.reserve(n);
  for (int32_t id = n_blocks - 1; id >= 0; --id) free_.push_back(id);
}

std::optional<int> KvBlocks::reserve(int slot, std::span<const int32_t> prompt, int n_positions, bool reuse) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  const int n_needed = (n_positions + block_tokens_ - 1) / block_tokens_;
  assert(s.n_blocks == 0 && s.n_promised == 0 && !prompt.empty());
  assert(static_cast<size_t>(n_positions) >= prompt.size() && n_needed <= max_blocks_);

  // Before anything changes, check that the blocks after the reused prefix fit too.
  int32_t* const row = table(slot);
  const Prefix prefix = reuse ? find_prefix(prompt, row) : Prefix{};
  const int n_found = prefix.n_blocks;
  // Some blocks of the reused prefix may not be in use by any slot. This reservation will use them. They then
  // cannot be evicted, so they do not count as available.
  const auto n_woken =
      static_cast<int>(std::count_if(row, row + n_found, [&](int32_t id) { return block(id).refs == 0; }));
  const int n_new = n_needed - n_found;
  const int n_window = n_window_needed(n_positions);
  if (n_free() + n_unused_ - n_woken - n_promised_ < n_new ||
      n_window > window_.size() - n_window_promised_) {
    std::fill_n(row, n_found, kNone);
    return std::nullopt;
  }
  for (int i = 0; i < n_found; ++i) use(row[i]);
  s = {.n_blocks = n_found,
       .n_committed = n_found,
       .n_promised = n_new,
       .n_prompt = static_cast<int>((prompt.size() - 1) / static_cast<size_t>(block_tokens_)),
       .n_given_up = std::max(0, n_found - n_before_),
       .n_window_promised = n_window};
  if (reuse) {
    const int n_equal = prefix.n_walked * block_tokens_;
    s.n_matched = n_equal + n_matched_after(prefix.last_walked, prompt.subspan(static_cast<size_t>(n_equal)));
  }
  n_promised_ += n_new;
  n_window_promised_ += n_window;
  if (n_found > 0 && snapshots_.size() > 0) {
    s.first_snapshot = block(row[n_found - 1]).snapshot;
    snapshots_.use(s.first_snapshot);
  }
  if (!has_window()) return n_found * block_tokens_;
  for (int i = s.n_given_up; i < n_found; ++i) {
    window_table(slot)[i] = block(row[i]).window;
    window_.use(block(row[i]).window);
  }
  mark_end(slot, n_found);
  return n_found * block_tokens_;
}

bool KvBlocks::promise_more(int slot, int n_positions) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  const int n_needed = (n_positions + block_tokens_ - 1) / block_tokens_;
  assert(n_needed <= max_blocks_);
  const int n_new = std::max(0, n_needed - s.n_blocks - s.n_promised);
  const int n_window = std::max(0, n_window_needed(n_positions) - s.n_window_promised);
  if (n_free() + n_unused_ - n_promised_ < n_new || n_window > window_.size() - n_window_promised_)
    return false;
  s.n_promised += n_new;
  n_promised_ += n_new;
  s.n_window_promised += n_window;
  n_window_promised_ += n_window;
  return true;
}

/// Walks the tree along the prompt. Writes the blocks of the longest reusable prefix to the beginning of the
/// row (a slot's block table).
KvBlocks::Prefix KvBlocks::find_prefix(std::span<const int32_t> prompt, int32_t* row) {
  const size_t width = static_cast<size_t>(block_tokens_);
  const int n_whole = static_cast<int>((prompt.size() - 1) / width);
  int n_walked = 0, n_usable = 0;
  int n_windows = 0;  // number of consecutive blocks with a window block, up to the end of the path so far
  int32_t parent = kNone;
  for (; n_walked < n_whole; parent = row[n_walked - 1]) {
    const std::span<const int32_t> tokens = prompt.subspan(static_cast<size_t>(n_walked) * width, width);
    const int32_t id = find(parent, prefix_hash(parent, tokens), tokens);
    if (id == kNone) break;
    row[n_walked++] = id;
    n_windows = block(id).window == kNone ? 0 : n_windows + 1;
    const bool has_state = snapshots_.size() == 0 || block(id).snapshot != kNone;
    if (has_state && n_windows >= std::min(n_walked, n_before_)) n_usable = n_walked;
  }
  std::fill(row + n_usable, row + n_walked, kNone);
  return {.n_blocks = n_usable, .n_walked = n_walked, .last_walked = parent};
}

/// Returns how many tokens the most similar child of the block has in common with the beginning of `tokens`.
/// Without a parent, considers the first blocks of all sequences.
int KvBlocks::n_matched_after(int32_t parent, std::span<const int32_t> tokens) const {
  const size_t width = static_cast<size_t>(block_tokens_);
  std::ptrdiff_t most = 0;
  for (size_t id = 0; id < blocks_.size(); ++id) {
    if (!blocks_[id].registered || blocks_[id].parent != parent) continue;
    const std::span<const int32_t> own = std::span(tokens_).subspan(id * width, width);
    most = std::max(most, std::ranges::mismatch(own, tokens).in1 - own.begin());
  }
  return static_cast<int>(most);
}

/// Returns the maximum number of window blocks that a sequence of n_positions holds at once.
int KvBlocks::n_window_needed(int n_positions) const {
  return std::min((n_positions + block_tokens_ - 1) / block_tokens_, n_at_once_);
}

void KvBlocks::extend(int slot, int n_positions) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  int32_t* const row = table(slot);
  while (s.n_blocks * block_tokens_ < n_positions) {
    assert(s.n_promised > 0);
    --s.n_promised;
    --n_promised_;
    const int32_t id = take();
    block(id).refs = 1;
    row[s.n_blocks++] = id;
    if (has_window()) take_window_block(slot, s.n_blocks - 1);
  }
}

void KvBlocks::take_window_block(int slot, int index) {
  [[maybe_unused]] const Slot& s = slots_[static_cast<size_t>(slot)];
  assert(index - s.n_given_up < s.n_window_promised);
  const WindowPool::Taken taken = window_.take();
  if (taken.lost_by != kNone) block(taken.lost_by).window = kNone;
  window_table(slot)[index] = taken.id;
}

void KvBlocks::commit(int slot, std::span<const int32_t> tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  int32_t* const row = table(slot);
  const size_t width = static_cast<size_t>(block_tokens_);
  const int n_full = static_cast<int>(tokens.size() / width);
  assert(n_full <= s.n_blocks);
  for (int i = s.n_committed; i < n_full; ++i) {
    const std::span<const int32_t> own = tokens.subspan(static_cast<size_t>(i) * width, width);
    const int32_t parent = i == 0 ? kNone : row[i - 1];
    const uint64_t hash = prefix_hash(parent, own);
    const int32_t twin = find(parent, hash, own);
    if (twin == kNone) {
      if (parent != kNone && block(parent).n_children > 0) mark_end(slot, i);  // texts diverge here
      register_block(row[i], parent, hash, own);
    } else {
      // Use the equal block that is registered. If the slot kept its own block, a block would be wasted, and
      // the slot's later blocks could not be registered (invariant 1).
      block(row[i]).refs = 0;
      free_.push_back(row[i]);
      use(twin);
      row[i] = twin;
    }
    if (has_window()) register_window_block(slot, i);
    if (i + 1 == s.n_prompt) mark_end(slot, s.n_prompt);
  }
  s.n_committed = std::max(s.n_committed, n_full);
  move_on(slot, static_cast<int>(tokens.size()));
}

/// If a registered block of the slot owns no window block, makes it own the slot's window block. Otherwise
/// makes the slot use the window block that the registered block owns.
void KvBlocks::register_window_block(int slot, int index) {
  int32_t& own = window_table(slot)[index];
  const int32_t id = table(slot)[index];
  int32_t& kept = block(id).window;
  if (kept == kNone) {
    kept = own;
    window_.set_owner(own, id);
  } else if (kept != own) {
    window_.use(kept);
    window_.give_up(own);
    own = kept;
  }
}

/// Marks the window blocks that a prompt needs if it continues after the slot's first n_blocks blocks. Marked
/// window blocks are kept longer.
void KvBlocks::mark_end(int slot, int n_blocks) {
  const int32_t* const row = table(slot);
  for (int i = std::max(0, n_blocks - n_before_); i < n_blocks; ++i) {
    if (block(row[i]).window != kNone) window_.mark_end(block(row[i]).window);
  }
}

void KvBlocks::move_on(int slot, int n_computed) {
  if (!has_window()) return;
  Slot& s = slots_[static_cast<size_t>(slot)];
  int32_t* const row = window_table(slot);
  // A later prompt may continue after the last full block, and then needs the window blocks before this
  // point. So the slot holds them until the next block is full.
  for (const int first = n_computed / block_tokens_ - n_before_; s.n_given_up < first; ++s.n_given_up) {
    window_.give_up(std::exchange(row[s.n_given_up], kNone));
  }
}

int32_t KvBlocks::take_snapshot() {
  const SnapshotPool::Taken taken = snapshots_.take();
  if (taken.lost_by != kNone) block(taken.lost_by).snapshot = kNone;
  return taken.id;
}

void KvBlocks::keep_snapshot(int slot, int n_positions, int32_t snapshot, bool passing) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  const int index = n_positions / block_tokens_ - 1;
  assert(index >= 0 && n_positions % block_tokens_ == 0);
  const int32_t id = index < s.n_committed ? table(slot)[index] : kNone;
  if (id == kNone || block(id).snapshot != kNone) return snapshots_.free(snapshot);
  if (passing) {
    if (s.passing != kNone && block(s.passing).snapshot == s.passing_snapshot)
      free_snapshot(block(s.passing));
    s.passing = id;
    s.passing_snapshot = snapshot;
  }
  block(id).snapshot = snapshot;
  snapshots_.set_owner(snapshot, id, n_saved_by(slot, index));
  snapshots_.set_unsaved(snapshot, tracks_unsaved_ && !passing);
}

/// Returns how many tokens must be computed again before the end of a block if it owns no snapshot.
int KvBlocks::n_saved_by(int slot, int index) const {
  const int32_t* const row = tables_.data() + static_cast<size_t>(slot) * static_cast<size_t>(max_blocks_);
  int n = 1;
  while (n <= index && snapshot_of(row[index - n]) == kNone) ++n;
  return n * block_tokens_;
}

void KvBlocks::free_snapshot(Block& block) {
  if (block.snapshot != kNone) snapshots_.free(std::exchange(block.snapshot, kNone));
}

void KvBlocks::release(int slot, bool keep) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  int32_t* const row = table(slot);
  if (tracks_unsaved_ && keep && s.passing != kNone && block(s.passing).snapshot == s.passing_snapshot)
    snapshots_.set_unsaved(s.passing_snapshot, true);
  if (has_window()) {
    mark_end(slot, s.n_committed);
    for (int i = s.n_blocks - 1; i >= s.n_given_up; --i)
      window_.give_up(std::exchange(window_table(slot)[i], kNone));
  }
  for (int i = s.n_blocks - 1; i >= 0; --i) {  // deepest first: see invariant 2
    const int32_t id = row[i];
    Block& b = block(id);
    row[i] = kNone;
    if (--b.refs > 0) continue;
    if (b.registered && (keep || b.n_children > 0)) {
      push_newest(id);
      continue;
    }
    if (b.registered) unregister_block(id);
    free_.push_back(id);
  }
  n_promised_ -= s.n_promised;
  n_window_promised_ -= s.n_window_promised;
  s = Slot{};
}

void KvBlocks::add_unsaved(int32_t id) {
  Block& b = block(id);
  b.unsaved = true;
  b.unsaved_before = last_unsaved_;
  b.unsaved_after = kNone;
  (last_unsaved_ == kNone ? first_unsaved_ : block(last_unsaved_).unsaved_after) = id;
  last_unsaved_ = id;
}

void KvBlocks::mark_saved(int32_t id) {
  Block& b = block(id);
  if (!std::exchange(b.unsaved, false)) return;
  (b.unsaved_before == kNone ? first_unsaved_ : block(b.unsaved_before).unsaved_after) = b.unsaved_after;
  (b.unsaved_after == kNone ? last_unsaved_ : block(b.unsaved_after).unsaved_before) = b.unsaved_before;
}

int32_t KvBlocks::first_unsaved_state() const {
  const int32_t snapshot = snapshots_.first_unsaved();
  return snapshot == kNone ? kNone : snapshots_.owner(snapshot);
}

void KvBlocks::mark_state_saved(int32_t id) {
  if (block(id).snapshot != kNone) snapshots_.set_unsaved(block(id).snapshot, false);
}

std::span<const int32_t> KvBlocks::registered_tokens(int32_t id) const {
  const size_t width = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(id) * width, width);
}

std::span<int32_t> KvBlocks::tokens_of(int32_t id) {
  const size_t width = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(id) * width, width);
}

uint64_t KvBlocks::prefix_hash(int32_t parent, std::span<const int32_t> tokens) const {
  // The hash includes the parent's hash, so a block's bucket depends on all tokens before it. Hash collisions
  // only make chains longer, because find() compares tokens. The multiplier is 2^64 divided by the golden
  // ratio, rounded to an odd number (Knuth, multiplicative hashing).
  uint64_t hash = parent == kNone ? 0 : blocks_[static_cast<size_t>(parent)].hash;
  for (const int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

int32_t KvBlocks::find(int32_t parent, uint64_t hash, std::span<const int32_t> tokens) {
  for (int32_t id = bucket(hash); id != kNone; id = block(id).next_in_bucket) {
    if (block(id).parent == parent && std::ranges::equal(tokens_of(id), tokens)) return id;
  }
  return kNone;
}

void KvBlocks::register_block(int32_t id, int32_t parent, uint64_t hash, std::span<const int32_t> tokens) {
  Block& b = block(id);
  assert(!b.registered);
  b.registered = true;
  b.parent = parent;
  b.hash = hash;
  b.n_children = 0;
  b.next_in_bucket = bucket(hash);
  bucket(hash) = id;
  std::ranges::copy(tokens, tokens_of(id).begin());
  if (parent != kNone) ++block(parent).n_children;
  if (tracks_unsaved_) add_unsaved(id);
}

void KvBlocks::unregister_block(int32_t id) {
  Block& b = block(id);
  assert(b.registered && b.n_children == 0);
  int32_t* link = &bucket(b.hash);
  while (*link != id) link = &block(*link).next_in_bucket;
  *link = b.next_in_bucket;
  if (b.parent != kNone) --block(b.parent).n_children;
  if (b.window != kNone) window_.disown(std::exchange(b.window, kNone));
  free_snapshot(b);
  mark_saved(id);
  b.registered = false;
}

int32_t KvBlocks::take() {
  if (free_.empty()) {
    const int32_t victim = oldest_;
    assert(victim != kNone);  // invariant 3
    unlink(victim);
    unregister_block(victim);
    return victim;
  }
  const int32_t id = free_.back();
  free_.pop_back();
  return id;
}

void KvBlocks::use(int32_t id) {
  if (block(id).refs++ == 0) unlink(id);
}

void KvBlocks::push_newest(int32_t id) {
  Block& b = block(id);
  b.older = newest_;
  b.newer = kNone;
  if (newest_ != kNone) block(newest_).newer = id;
  newest_ = id;
  if (oldest_ == kNone) oldest_ = id;
  ++n_unused_;
}

void KvBlocks::unlink(int32_t id) {
  Block& b = block(id);
  (b.older == kNone ? oldest_ : block(b.older).newer) = b.newer;
  (b.newer == kNone ? newest_ : block(b.newer).older) = b.older;
  --n_unused_;
}

}  // namespace hearth
