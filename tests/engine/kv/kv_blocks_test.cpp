// Block tables and the prefix cache, compared with their invariants and with a plain map of what has been
// computed.
#include "engine/kv/kv_blocks.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support/catch.h"

using namespace hearth;

namespace {

using Tokens = std::vector<int32_t>;

Tokens counting(int n, int32_t from = 0) {
  Tokens tokens(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

Tokens row(const KvBlocks& blocks, int slot) {
  const size_t width = static_cast<size_t>(blocks.max_blocks());
  const std::span<const int32_t> ids = blocks.tables().subspan(static_cast<size_t>(slot) * width, width);
  return {ids.begin(), ids.end()};
}

// Runs a whole sequence through a slot: reserve, extend, commit.
std::optional<int> run(KvBlocks& blocks, int slot, const Tokens& tokens, bool reuse = true) {
  const int n = static_cast<int>(tokens.size());
  const std::optional<int> n_cached = blocks.reserve(slot, tokens, n, reuse);
  if (!n_cached) return n_cached;
  blocks.extend(slot, n);
  blocks.commit(slot, tokens);
  return n_cached;
}

}  // namespace

TEST_CASE("kv blocks: a table lists one block for every block of positions begun") {
  KvBlocks blocks(8, 4, 2, 4);
  REQUIRE(blocks.reserve(1, counting(5), 13, true) == 0);
  CHECK(row(blocks, 1) == Tokens{-1, -1, -1, -1});
  CHECK(blocks.n_promised() == 4);
  CHECK(blocks.n_free() == 8);  // promised, not taken: cached blocks stay until they must go
  blocks.extend(1, 5);
  CHECK(blocks.n_promised() == 2);
  CHECK(row(blocks, 1)[1] >= 0);
  CHECK(row(blocks, 1)[2] == -1);
  blocks.extend(1, 13);
  const Tokens ids = row(blocks, 1);
  CHECK(std::set<int32_t>(ids.begin(), ids.end()).size() == 4);
  CHECK(*std::ranges::min_element(ids) >= 0);
  CHECK(row(blocks, 0) == Tokens{-1, -1, -1, -1});
  blocks.release(1, true);
  CHECK(blocks.n_free() == 8);  // nothing was committed, so nothing is worth keeping
  CHECK(row(blocks, 1) == Tokens{-1, -1, -1, -1});
}

TEST_CASE("kv blocks: a slot can be promised more, as far as blocks are free or can be evicted") {
  KvBlocks blocks(8, 4, 2, 8);
  REQUIRE(blocks.reserve(0, counting(5), 6, true) == 0);
  REQUIRE(blocks.reserve(1, counting(9, 50), 10, true) == 0);
  CHECK(blocks.n_promised_positions(0) == 8);
  CHECK(blocks.promise_more(0, 8));  // it already has them
  CHECK(blocks.n_promised() == 5);
  CHECK(blocks.promise_more(0, 19));
  CHECK(blocks.n_promised_positions(0) == 20);
  blocks.extend(0, 19);
  CHECK(blocks.n_promised_positions(0) == 20);
  CHECK(blocks.n_promised() == 3);
  CHECK_FALSE(blocks.promise_more(0, 21));
  CHECK(blocks.n_promised() == 3);
  CHECK(blocks.n_promised_positions(0) == 20);
  blocks.extend(1, 10);
  blocks.commit(1, counting(9, 50));
  blocks.release(1, true);
  CHECK(blocks.n_unused_cached() == 2);
  CHECK(blocks.promise_more(0, 32));
  CHECK_FALSE(blocks.reserve(1, counting(9, 50), 10, true));  // the cached blocks are promised
}

TEST_CASE("kv blocks: a finished sequence's full blocks serve the same prompt but for its last token") {
  KvBlocks blocks(16, 4, 2, 8);
  const Tokens prompt = counting(12);
  CHECK(run(blocks, 0, prompt) == 0);
  const Tokens first = row(blocks, 0);
  blocks.release(0, true);
  CHECK(blocks.n_unused_cached() == 3);

  // 12 tokens are three full blocks, but the third holds the last token, whose logits are needed.
  CHECK(run(blocks, 1, prompt) == 8);
  const Tokens second = row(blocks, 1);
  CHECK(second[0] == first[0]);
  CHECK(second[1] == first[1]);
  CHECK(second[2] == first[2]);  // computed again, found in the cache, and the cached block used
  blocks.release(1, true);
  CHECK(run(blocks, 0, counting(13)) == 12);
  blocks.release(0, true);
  CHECK(run(blocks, 0, counting(13), false) == 0);
}

TEST_CASE("kv blocks: equal tokens after different prefixes are different blocks") {
  KvBlocks blocks(16, 4, 1, 8);
  Tokens a = counting(4, 100), b = counting(4, 200);
  const Tokens tail = counting(5);
  a.insert(a.end(), tail.begin(), tail.end());
  b.insert(b.end(), tail.begin(), tail.end());
  CHECK(run(blocks, 0, a) == 0);
  blocks.release(0, true);
  CHECK(run(blocks, 0, b) == 0);
  blocks.release(0, true);
  CHECK(run(blocks, 0, tail) == 0);
  blocks.release(0, true);
  CHECK(run(blocks, 0, a) == 8);
  blocks.release(0, true);
  CHECK(run(blocks, 0, b) == 8);
}

TEST_CASE("kv blocks: equal blocks computed at the same time become one") {
  KvBlocks blocks(16, 4, 3, 4);
  const Tokens tokens = counting(10);
  for (int slot = 0; slot < 3; ++slot) {
    REQUIRE(blocks.reserve(slot, tokens, 10, true) == 0);
    blocks.extend(slot, 10);
  }
  CHECK(blocks.n_free() == 7);
  for (int slot = 0; slot < 3; ++slot) blocks.commit(slot, tokens);
  CHECK(blocks.n_free() == 11);
  for (int slot = 1; slot < 3; ++slot) {
    CHECK(row(blocks, slot)[0] == row(blocks, 0)[0]);
    CHECK(row(blocks, slot)[1] == row(blocks, 0)[1]);
    CHECK(row(blocks, slot)[2] != row(blocks, 0)[2]);  // not full: each slot writes into its own
  }
  CHECK(blocks.n_refs(row(blocks, 0)[0]) == 3);
  blocks.release(0, true);
  blocks.release(1, true);
  CHECK(blocks.n_unused_cached() == 0);
  blocks.release(2, true);
  CHECK(blocks.n_unused_cached() == 2);
}

TEST_CASE("kv blocks: the least recently used go first, leaves before parents, and none in use") {
  KvBlocks blocks(6, 4, 2, 6);
  const Tokens old = counting(12, 0), young = counting(8, 100);
  run(blocks, 0, old);
  blocks.release(0, true);
  run(blocks, 0, young);
  blocks.release(0, true);
  CHECK(blocks.n_free() == 1);
  CHECK(blocks.n_unused_cached() == 5);

  CHECK(run(blocks, 0, counting(8, 200)) ==
        0);  // takes the free block and evicts one: the end of the old sequence
  Tokens probe = old;
  probe.push_back(7);
  REQUIRE(blocks.reserve(1, probe, 13, true) == 8);
  blocks.release(1, true);
  probe = young;
  probe.push_back(7);
  REQUIRE(blocks.reserve(1, probe, 9, true) == 8);
  blocks.release(1, true);
  // Everything that slot 0 does not use can be reserved, and not one block more.
  CHECK_FALSE(blocks.reserve(1, counting(17, 300), 17, true));
  CHECK(row(blocks, 1) == Tokens(6, -1));
  REQUIRE(blocks.reserve(1, counting(16, 300), 16, true) == 0);
  blocks.extend(1, 16);
  CHECK(blocks.n_unused_cached() == 0);
}

TEST_CASE("kv blocks: found blocks do not count as room for the rest of the same sequence") {
  KvBlocks blocks(4, 4, 2, 4);
  run(blocks, 0, counting(12));
  blocks.release(0, true);  // 1 free, 3 cached
  REQUIRE(blocks.reserve(0, counting(13), 16, true) == 12);
  CHECK(blocks.n_promised() == 1);
  CHECK_FALSE(blocks.reserve(1, counting(1, 50), 1, true));
  blocks.release(0, true);
  CHECK(blocks.reserve(0, Tokens(16, 1), 16, true) == 0);
}

TEST_CASE("kv blocks: a failed sequence leaves nothing of its own in the cache") {
  KvBlocks blocks(16, 4, 2, 8);
  run(blocks, 0, counting(9));
  Tokens longer = counting(17);
  CHECK(run(blocks, 1, longer) == 8);
  blocks.release(1, false);
  CHECK(run(blocks, 1, longer) == 8);  // slot 0 uses the first two as well, so they stay
  blocks.release(1, false);
  blocks.release(0, false);
  CHECK(blocks.n_unused_cached() == 0);
  CHECK(blocks.n_free() == 16);
}

// Random sequences over a tiny alphabet share prefixes all the time, and six blocks have eight hash buckets,
// so chains collide. The reference knows for every block id which whole prefix it holds.
TEST_CASE("kv blocks: random traffic never gives a block with another prefix and never breaks a promise") {
  const uint64_t seed = GENERATE(range(0, 8));
  std::mt19937_64 random(seed);
  constexpr int kSlots = 3, kWidth = 2, kMaxBlocks = 5;
  const int n_blocks = 6 + static_cast<int>(seed);
  KvBlocks blocks(n_blocks, kWidth, kSlots, kMaxBlocks);
  struct Running {
    Tokens tokens;
    size_t n_prompt = 0, n_computed = 0;
  };
  std::vector<Running> running(kSlots);
  std::map<int32_t, Tokens> held;  // block id -> all tokens up to its end
  int n_hits = 0, n_refused = 0;
  for (int step = 0; step < 4000; ++step) {
    const int slot = static_cast<int>(random() % kSlots);
    Running& r = running[static_cast<size_t>(slot)];
    if (r.tokens.empty()) {
      Tokens tokens(1 + random() % (kWidth * kMaxBlocks));
      for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2);
      const size_t n_prompt = 1 + random() % tokens.size();
      const std::span<const int32_t> prompt = std::span(tokens).first(n_prompt);
      const std::optional<int> n_cached = blocks.reserve(slot, prompt, static_cast<int>(tokens.size()), true);
      if (!n_cached) {
        ++n_refused;
        continue;
      }
      REQUIRE(*n_cached < static_cast<int>(n_prompt));
      REQUIRE(*n_cached % kWidth == 0);
      n_hits += *n_cached > 0 ? 1 : 0;
      for (int i = 0; i < *n_cached / kWidth; ++i) {
        const Tokens prefix(tokens.begin(), tokens.begin() + (i + 1) * kWidth);
        REQUIRE(held.at(row(blocks, slot)[static_cast<size_t>(i)]) == prefix);
      }
      r = {tokens, n_prompt, static_cast<size_t>(*n_cached)};
    } else if (r.n_computed < r.tokens.size()) {
      const size_t before = r.n_computed;
      r.n_computed = std::min(r.tokens.size(), before + 1 + random() % 3);
      blocks.extend(slot, static_cast<int>(r.n_computed));
      const Tokens ids = row(blocks, slot);
      for (size_t end = before / kWidth * kWidth + kWidth; end <= r.n_computed; end += kWidth) {
        // only the slot itself uses the block that it writes
        REQUIRE(blocks.n_refs(ids[end / kWidth - 1]) == 1);
        held[ids[end / kWidth - 1]] =
            Tokens(r.tokens.begin(), r.tokens.begin() + static_cast<std::ptrdiff_t>(end));
      }
      blocks.commit(slot, std::span(r.tokens).first(r.n_computed));
      const Tokens after = row(blocks, slot);
      for (size_t end = kWidth; end <= r.n_computed; end += kWidth) {
        REQUIRE(held.at(after[end / kWidth - 1]) ==
                Tokens(r.tokens.begin(), r.tokens.begin() + static_cast<std::ptrdiff_t>(end)));
      }
    } else {
      blocks.release(slot, random() % 8 != 0);
      r = {};
    }
    REQUIRE(blocks.n_promised() <= blocks.n_free() + blocks.n_unused_cached());
  }
  CHECK(n_hits > 100);
  if (n_blocks < kSlots * kMaxBlocks / 2) CHECK(n_refused > 10);
  for (int slot = 0; slot < kSlots; ++slot) {
    if (!running[static_cast<size_t>(slot)].tokens.empty()) blocks.release(slot, true);
  }
  CHECK(blocks.n_free() + blocks.n_unused_cached() == n_blocks);
  CHECK(blocks.n_promised() == 0);
}
