// KV block tables and the prefix cache. The invariants are in the header.
#include "engine/serving/kv_blocks.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace hearth {

KvBlocks::KvBlocks(int n_blocks, int block_tokens, int n_slots, int max_blocks)
    : block_tokens_(block_tokens), max_blocks_(max_blocks) {
  assert(n_blocks > 0 && block_tokens > 0 && n_slots > 0 && max_blocks > 0);
  const size_t n = static_cast<size_t>(n_blocks);
  blocks_.resize(n);
  tokens_.resize(n * static_cast<size_t>(block_tokens));
  buckets_.assign(std::bit_ceil(n), kNone);
  slots_.resize(static_cast<size_t>(n_slots));
  tables_.assign(static_cast<size_t>(n_slots) * static_cast<size_t>(max_blocks), kNone);
  free_.reserve(n);
  for (int32_t id = n_blocks - 1; id >= 0; --id) free_.push_back(id);
}

std::optional<int> KvBlocks::reserve(int slot, std::span<const int32_t> prompt, int n_positions, bool reuse) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  const int n_needed = (n_positions + block_tokens_ - 1) / block_tokens_;
  assert(s.n_blocks == 0 && s.n_promised == 0 && !prompt.empty());
  assert(static_cast<size_t>(n_positions) >= prompt.size() && n_needed <= max_blocks_);

  // Walk the tree along the prompt. Nothing changes until it is known that the rest fits too.
  int32_t* const row = table(slot);
  const size_t width = static_cast<size_t>(block_tokens_);
  const size_t n_reusable = reuse ? (prompt.size() - 1) / width : 0;
  int n_found = 0;
  int n_woken = 0;  // of those, unused until now: they can no longer be evicted
  int32_t parent = kNone;
  for (size_t i = 0; i < n_reusable; ++i) {
    const std::span<const int32_t> tokens = prompt.subspan(i * width, width);
    const int32_t id = find(parent, prefix_hash(parent, tokens), tokens);
    if (id == kNone) break;
    row[n_found++] = id;
    n_woken += block(id).refs == 0 ? 1 : 0;
    parent = id;
  }

  const int n_new = n_needed - n_found;
  if (n_free() + n_unused_ - n_woken - n_promised_ < n_new) {
    std::fill_n(row, n_found, kNone);
    return std::nullopt;
  }
  for (int i = 0; i < n_found; ++i) use(row[i]);
  s.n_blocks = s.n_committed = n_found;
  s.n_promised = n_new;
  n_promised_ += n_new;
  return n_found * block_tokens_;
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
  }
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
      register_block(row[i], parent, hash, own);
    } else {
      // Keeping both would leave this slot outside the tree (invariant 1) and waste a block.
      block(row[i]).refs = 0;
      free_.push_back(row[i]);
      use(twin);
      row[i] = twin;
    }
  }
  s.n_committed = std::max(s.n_committed, n_full);
}

void KvBlocks::release(int slot, bool keep) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  int32_t* const row = table(slot);
  for (int i = s.n_blocks - 1; i >= 0; --i) {  // the deepest first: see invariant 2
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
  s = Slot{};
}

std::span<int32_t> KvBlocks::tokens_of(int32_t id) {
  const size_t width = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(id) * width, width);
}

uint64_t KvBlocks::prefix_hash(int32_t parent, std::span<const int32_t> tokens) const {
  // The hash includes the parent's, so a block's bucket depends on all tokens before it. A bad hash only makes
  // chains longer, because find() compares tokens. Multiplier: 2^64 over the golden ratio, odd (Knuth,
  // multiplicative hashing).
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
}

void KvBlocks::unregister_block(int32_t id) {
  Block& b = block(id);
  assert(b.registered && b.n_children == 0);
  int32_t* link = &bucket(b.hash);
  while (*link != id) link = &block(*link).next_in_bucket;
  *link = b.next_in_bucket;
  if (b.parent != kNone) --block(b.parent).n_children;
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
