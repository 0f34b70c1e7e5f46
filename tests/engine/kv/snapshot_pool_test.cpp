// Snapshots of recurrent states: which one goes first, and which prefixes a prompt can reuse with them.
#include "engine/kv/snapshot_pool.h"

#include <map>
#include <random>

#include "engine/kv/kv_blocks.h"
#include "tests/support/catch.h"

namespace hearth::snapshot_pool_test {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int kWidth = 4;

Tokens counting(int n, int32_t from = 0) {
  Tokens tokens(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

KvBlocks blocks_with(int n_snapshots, int n_slots = 2) {
  return {64, kWidth, n_slots, 16, {}, 0, n_snapshots};
}

/// Runs a whole sequence through a slot and keeps a snapshot after n tokens, unless n is 0. Returns how many
/// tokens came from the prefix cache.
int run(KvBlocks& blocks, int slot, const Tokens& tokens, int n, bool passing = false) {
  const int n_cached = blocks.reserve(slot, tokens, static_cast<int>(tokens.size()), true).value();
  blocks.extend(slot, static_cast<int>(tokens.size()));
  const int32_t snapshot = n > 0 ? blocks.take_snapshot() : SnapshotPool::kNone;
  blocks.commit(slot, tokens);
  if (snapshot != SnapshotPool::kNone) blocks.keep_snapshot(slot, n, snapshot, passing);
  return n_cached;
}

}  // namespace

TEST_CASE(
    "snapshots: the one that saves the fewest tokens goes first, but an old one does not stay forever") {
  SnapshotPool pool(2);
  const int32_t large = pool.take().id, small = pool.take().id;
  CHECK(pool.take().id == SnapshotPool::kNone);  // both are being made
  pool.set_owner(large, 10, 100);
  pool.set_owner(small, 11, 30);
  SnapshotPool::Taken taken = pool.take();
  CHECK(taken.id == small);
  CHECK(taken.lost_by == 11);
  // Each eviction raises the worth of what comes after it: 30 + 40, then 70 + 40.
  pool.set_owner(taken.id, 12, 40);
  taken = pool.take();
  CHECK(taken.lost_by == 12);
  pool.set_owner(taken.id, 13, 40);
  taken = pool.take();
  CHECK(taken.lost_by == 10);
  CHECK(pool.n_owned() == 1);
}

TEST_CASE("snapshots: one that was used stays longer") {
  SnapshotPool pool(3);
  for (int32_t node = 0; node < 3; ++node) pool.set_owner(pool.take().id, node, 10 * (node + 1));
  pool.set_owner(pool.take().id, 3, 15);  // evicts node 0's; worth 10 + 15
  pool.use(1);                            // node 1's: worth 10 + 20
  CHECK(pool.take().lost_by == 3);
}

TEST_CASE("kv blocks: a prompt reuses a prefix only up to a snapshot") {
  KvBlocks blocks = blocks_with(4);
  CHECK(run(blocks, 0, counting(24), 12) == 0);
  blocks.release(0, true);
  CHECK(run(blocks, 0, counting(24), 0) == 12);
  CHECK(blocks.first_snapshot(0) != SnapshotPool::kNone);
  CHECK(run(blocks, 1, counting(12), 0) == 0);  // the last token must be computed, so its block is not reused
  CHECK(blocks.first_snapshot(1) == SnapshotPool::kNone);
  blocks.release(0, true);
  blocks.release(1, true);
  CHECK(run(blocks, 0, counting(13), 0) == 12);
}

TEST_CASE("kv blocks: a prompt is told at which token it parts from cached texts") {
  KvBlocks blocks = blocks_with(4);
  run(blocks, 0, counting(24), 12);
  const auto matched = [&](Tokens prompt) {
    run(blocks, 1, prompt, 0);
    const int n = blocks.n_matched(1);
    blocks.release(1, false);
    return n;
  };
  Tokens other = counting(30);
  CHECK(matched(other) == 24);
  other[17] = 0;
  CHECK(matched(other) == 17);
  CHECK(matched(counting(5, 100)) == 0);
  CHECK(matched(counting(3)) == 3);
}

TEST_CASE("kv blocks: a block keeps its first snapshot, and one without a block is freed") {
  KvBlocks blocks = blocks_with(4);
  run(blocks, 0, counting(24), 12);
  const int32_t again = blocks.take_snapshot(), beyond = blocks.take_snapshot();
  blocks.keep_snapshot(0, 12, again, false);
  blocks.keep_snapshot(0, 28, beyond, false);  // not registered
  CHECK(blocks.snapshot_pool().n_owned() == 1);
  CHECK(blocks.take_snapshot() != SnapshotPool::kNone);
}

TEST_CASE("kv blocks: a passing snapshot replaces the one before it") {
  KvBlocks blocks = blocks_with(4);
  run(blocks, 0, counting(24), 8);
  for (const int n : {12, 16, 20}) blocks.keep_snapshot(0, n, blocks.take_snapshot(), true);
  CHECK(blocks.snapshot_pool().n_owned() == 2);
  blocks.release(0, true);
  CHECK(run(blocks, 0, counting(24), 0) == 20);
  blocks.release(0, true);
  CHECK(run(blocks, 0, counting(18), 0) == 8);
}

TEST_CASE("kv blocks: an evicted block frees its snapshot") {
  KvBlocks blocks(4, kWidth, 1, 4, {}, 0, 2);
  run(blocks, 0, counting(16), 16);
  blocks.release(0, true);
  CHECK(blocks.snapshot_pool().n_owned() == 1);
  CHECK(run(blocks, 0, counting(16, 100), 0) == 0);
  CHECK(blocks.snapshot_pool().n_owned() == 0);
}

TEST_CASE("kv blocks: random traffic never continues from another text's snapshot") {
  std::mt19937 random(GENERATE(1u, 2u, 3u));
  KvBlocks blocks = blocks_with(5, 3);
  std::map<int32_t, Tokens> contents;  // what each snapshot was made of
  size_t n_reused = 0;
  for (int round = 0; round < 600; ++round) {
    Tokens text = counting(8 + static_cast<int>(random() % 40));
    for (size_t i = random() % 4 * 9 + 3; i < text.size(); ++i)
      text[i] += static_cast<int32_t>(random() % 2) * 100;
    const int slot = static_cast<int>(random() % 3);
    const std::optional<int> n_cached = blocks.reserve(slot, text, static_cast<int>(text.size()), true);
    REQUIRE(n_cached);
    if (*n_cached > 0) {
      const Tokens prefix(text.begin(), text.begin() + *n_cached);
      REQUIRE(contents.at(blocks.first_snapshot(slot)) == prefix);
      ++n_reused;
    }
    blocks.extend(slot, static_cast<int>(text.size()));
    blocks.commit(slot, text);
    for (int n = *n_cached + kWidth; n <= static_cast<int>(text.size()); n += kWidth) {
      if (random() % 2 == 0) continue;
      const int32_t snapshot = blocks.take_snapshot();
      contents[snapshot] = Tokens(text.begin(), text.begin() + n);
      blocks.keep_snapshot(slot, n, snapshot, random() % 3 == 0);
    }
    blocks.release(slot, random() % 8 > 0);
  }
  CHECK(n_reused > 100);
}

}  // namespace hearth::snapshot_pool_test
