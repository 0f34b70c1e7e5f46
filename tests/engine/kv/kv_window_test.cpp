// Window blocks: the blocks that a sequence holds, those that the prefix cache keeps, and the prefixes that
// can then be reused. Compares them with the invariants of the headers and a plain model.
#include "engine/kv/kv_window.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/kv/kv_blocks.h"
#include "engine/step/fixed_blocks.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

using Tokens = std::vector<int32_t>;

Tokens counted_tokens(int n, int32_t from = 0) {
  Tokens tokens(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

Tokens row_of(const KvBlocks& blocks, std::span<const int32_t> tables, int slot) {
  const auto width = static_cast<size_t>(blocks.max_blocks());
  const std::span<const int32_t> ids = tables.subspan(static_cast<size_t>(slot) * width, width);
  return {ids.begin(), ids.end()};
}
Tokens block_row(const KvBlocks& blocks, int slot) { return row_of(blocks, blocks.tables(), slot); }
Tokens window_row(const KvBlocks& blocks, int slot) { return row_of(blocks, blocks.window_tables(), slot); }

/// The indices of the slot's table that have a window block.
std::vector<int> held(const KvBlocks& blocks, int slot) {
  std::vector<int> indices;
  const Tokens ids = window_row(blocks, slot);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

/// Computes a sequence in a slot in steps, as the scheduler does. The first n_prompt tokens are its prompt.
std::optional<int> compute(KvBlocks& blocks, int slot, const Tokens& tokens, int step = 4, int n_prompt = 0) {
  const auto prompt = std::span(tokens).first(n_prompt > 0 ? static_cast<size_t>(n_prompt) : tokens.size());
  const int n = static_cast<int>(tokens.size());
  const std::optional<int> n_cached = blocks.reserve(slot, prompt, n, true);
  if (!n_cached) return n_cached;
  for (int done = *n_cached; done < n;) {
    const int next = std::min(n, done + step);
    blocks.extend(slot, next);
    blocks.commit(slot, std::span(tokens).first(static_cast<size_t>(next)));
    done = next;
  }
  return n_cached;
}

/// Returns the number of tokens that a prompt would reuse. Changes only the order of eviction.
int reusable(KvBlocks& blocks, int slot, Tokens prompt) {
  prompt.push_back(9999);
  const std::optional<int> n = blocks.reserve(slot, prompt, static_cast<int>(prompt.size()), true);
  REQUIRE(n);
  blocks.release(slot, true);
  return *n;
}

}  // namespace

TEST_CASE("kv windows: the number of blocks that a window needs") {
  CHECK(blocks_before(1, 4) == 0);  // a token sees itself only
  CHECK(blocks_before(2, 4) == 1);
  CHECK(blocks_before(5, 4) == 1);
  CHECK(blocks_before(6, 4) == 2);
  CHECK(blocks_before(128, 16) == 8);
  // The longest step begins at a block's last position.
  CHECK(blocks_at_once(5, 1, 4) == 2);
  CHECK(blocks_at_once(5, 2, 4) == 3);
  CHECK(blocks_at_once(5, 5, 4) == 3);
  CHECK(blocks_at_once(5, 6, 4) == 4);
}

TEST_CASE("kv windows: a sequence holds the blocks that later tokens see, and no more than promised") {
  KvBlocks blocks(32, 4, 2, 16, {.n_positions = 6, .n_blocks = 10}, 4);
  const Tokens tokens = counted_tokens(40);
  REQUIRE(blocks.reserve(0, tokens, 40, true) == 0);
  CHECK(blocks.n_window_promised() == blocks_at_once(6, 4, 4));
  for (int done = 0; done < 40;) {
    const int next = std::min(40, done + 3);
    blocks.extend(0, next);
    CHECK(held(blocks, 0).size() <= 4);
    // Position `done` sees the 5 positions before it.
    for (int p = std::max(0, done - 5); p < next; ++p)
      CHECK(window_row(blocks, 0)[static_cast<size_t>(p / 4)] >= 0);
    blocks.commit(0, std::span(tokens).first(static_cast<size_t>(next)));
    done = next;
  }
  CHECK(held(blocks, 0) == std::vector<int>{8, 9});
  CHECK(block_row(blocks, 0)[0] >= 0);  // layers that see everything have all blocks
  // Released blocks are kept until another sequence needs them.
  CHECK(blocks.window_pool().n_kept() == 8);
  CHECK(blocks.window_pool().free().empty());
  blocks.release(0, true);
  CHECK(blocks.window_pool().n_kept() == 10);
  CHECK(blocks.n_window_promised() == 0);
}

TEST_CASE(
    "kv windows: window blocks of a sequence that is never committed become free when they are hidden") {
  KvBlocks blocks(32, 4, 1, 16, {.n_positions = 6, .n_blocks = 4}, 4);
  REQUIRE(blocks.reserve(0, counted_tokens(40), 40, false) == 0);
  for (int done = 0; done < 40; done += 4) {
    blocks.extend(0, done + 4);
    blocks.move_on(0, done + 4);
  }
  CHECK(held(blocks, 0).size() == 2);
  CHECK(blocks.window_pool().free().size() == 2);
  blocks.release(0, true);
  CHECK(blocks.window_pool().free().size() == 4);
  CHECK(blocks.n_unused_cached() == 0);
}

TEST_CASE("kv windows: a prefix is reused as far as its window is complete") {
  KvBlocks blocks(64, 4, 2, 16, {.n_positions = 6, .n_blocks = 8}, 4);
  const Tokens tokens = counted_tokens(40);
  REQUIRE(compute(blocks, 0, tokens, 4, 21) == 0);
  blocks.release(0, true);
  // 8 of its 10 window blocks are left: the oldest between ends are gone.
  CHECK(reusable(blocks, 0, tokens) == 40);
  CHECK(reusable(blocks, 0, counted_tokens(21)) == 20);
  // its first full blocks are there, but not its window blocks
  CHECK(reusable(blocks, 0, counted_tokens(11)) == 0);
  CHECK(block_row(blocks, 0) == Tokens(16, -1));
  CHECK(window_row(blocks, 0) == Tokens(16, -1));
  // Another sequence first takes the blocks between the ends.
  REQUIRE(compute(blocks, 1, counted_tokens(8, 500)) == 0);
  blocks.release(1, true);
  CHECK(reusable(blocks, 0, tokens) == 40);
  CHECK(reusable(blocks, 0, counted_tokens(21)) == 20);
}

TEST_CASE("kv windows: the least recently used end of a text goes first") {
  KvBlocks blocks(64, 4, 2, 16, {.n_positions = 6, .n_blocks = 6}, 4);
  for (const int32_t from : {0, 100, 200}) {
    REQUIRE(compute(blocks, 0, counted_tokens(16, from)) == 0);
    blocks.release(0, true);
  }
  // Each end takes two blocks, and so does the end of each prompt, which is one block earlier.
  CHECK(reusable(blocks, 0, counted_tokens(16, 200)) == 16);
  CHECK(reusable(blocks, 0, counted_tokens(16, 100)) == 16);
  REQUIRE(compute(blocks, 0, counted_tokens(16, 300)) == 0);
  blocks.release(0, true);
  CHECK(reusable(blocks, 0, counted_tokens(16, 300)) == 16);
  CHECK(reusable(blocks, 0, counted_tokens(16, 100)) == 16);
  CHECK(reusable(blocks, 0, counted_tokens(16, 200)) < 16);
}

TEST_CASE("kv windows: a third text can continue where two texts diverge") {
  KvBlocks blocks(64, 4, 1, 16, {.n_positions = 6, .n_blocks = 16}, 4);
  const auto with = [](int32_t from) {
    Tokens text = counted_tokens(20);
    for (const int32_t token : counted_tokens(17, from)) text.push_back(token);
    return text;
  };
  REQUIRE(compute(blocks, 0, with(100)) == 0);
  blocks.release(0, true);
  CHECK(compute(blocks, 0, with(200)) == 20);  // the first text's memory has not been needed
  blocks.release(0, true);
  // A long text takes all blocks between ends.
  REQUIRE(compute(blocks, 0, counted_tokens(40, 900)) == 0);
  blocks.release(0, true);
  CHECK(compute(blocks, 0, with(300)) == 20);
  blocks.release(0, true);
}

TEST_CASE("kv windows: a recomputed block gives its window block to the cached one that lost its own") {
  KvBlocks blocks(64, 4, 1, 16, {.n_positions = 6, .n_blocks = 4}, 4);
  const Tokens tokens = counted_tokens(24);
  REQUIRE(compute(blocks, 0, tokens) == 0);
  blocks.release(0, true);
  REQUIRE(compute(blocks, 0, counted_tokens(24, 500)) == 0);
  blocks.release(0, true);
  const int n_free = blocks.n_free();
  CHECK(reusable(blocks, 0, tokens) == 0);
  CHECK(compute(blocks, 0, tokens) == 0);  // computes everything
  CHECK(blocks.n_free() == n_free);        // and finds its blocks in the tree
  blocks.release(0, true);
  CHECK(reusable(blocks, 0, tokens) == 24);
}

TEST_CASE("kv windows: equal blocks computed at the same time share one window block") {
  KvBlocks blocks(32, 4, 2, 8, {.n_positions = 6, .n_blocks = 8}, 16);
  const Tokens tokens = counted_tokens(10);
  for (int slot = 0; slot < 2; ++slot) {
    REQUIRE(blocks.reserve(slot, tokens, 10, true) == 0);
    blocks.extend(slot, 10);
  }
  for (int slot = 0; slot < 2; ++slot) blocks.commit(slot, tokens);
  CHECK(window_row(blocks, 0)[0] == window_row(blocks, 1)[0]);
  CHECK(window_row(blocks, 0)[1] == window_row(blocks, 1)[1]);
  CHECK(window_row(blocks, 0)[2] != window_row(blocks, 1)[2]);
  CHECK(blocks.window_pool().n_refs(window_row(blocks, 0)[1]) == 2);
  CHECK(blocks.window_pool().free().size() == 4);
  blocks.release(0, true);
  blocks.release(1, true);
  CHECK(blocks.window_pool().n_kept() == 2);
  CHECK(blocks.window_pool().free().size() == 6);
}

TEST_CASE("kv windows: a sequence whose window blocks cannot be promised waits, shared prefix or not") {
  KvBlocks blocks(64, 4, 3, 8, {.n_positions = 6, .n_blocks = 8}, 4);
  const Tokens tokens = counted_tokens(25);
  REQUIRE(compute(blocks, 0, tokens));
  REQUIRE(blocks.reserve(1, tokens, 25, true) == 24);
  CHECK(blocks.n_window_promised() == 8);
  CHECK_FALSE(blocks.reserve(2, tokens, 25, true));
  CHECK(block_row(blocks, 2) == Tokens(8, -1));
  CHECK(window_row(blocks, 2) == Tokens(8, -1));
  blocks.release(0, true);
  CHECK(blocks.reserve(2, tokens, 25, true) == 24);
}

TEST_CASE("kv windows: a failed sequence leaves no window block of its own in the cache") {
  KvBlocks blocks(32, 4, 2, 8, {.n_positions = 6, .n_blocks = 8}, 4);
  REQUIRE(compute(blocks, 0, counted_tokens(24)) == 0);
  blocks.release(0, false);
  CHECK(blocks.window_pool().n_kept() == 0);
  CHECK(blocks.window_pool().free().size() == 8);
  CHECK(blocks.n_free() == 32);
}

namespace {

/// Random sequences over a tiny alphabet, which share prefixes all the time. The model knows for each window
/// block which whole prefix was written to it, block by block, and what a lookup must find.
class Traffic {
 public:
  static constexpr int kSlots = 3, kWidth = 2, kMaxBlocks = 8;

  explicit Traffic(uint64_t seed)
      : random_(seed),
        window_(1 + static_cast<int>(seed % 7)),
        step_(1 + static_cast<int>(seed / 7 % 4)),
        n_blocks_(kMaxBlocks + static_cast<int>(seed * 5 % 23)),
        n_window_(std::min(kMaxBlocks, blocks_at_once(window_, step_, kWidth)) + static_cast<int>(seed % 5)),
        blocks_(n_blocks_, kWidth, kSlots, kMaxBlocks, {.n_positions = window_, .n_blocks = n_window_},
                step_),
        running_(kSlots) {}

  void turn() {
    const int slot = static_cast<int>(random_() % kSlots);
    Running& r = running_[static_cast<size_t>(slot)];
    if (r.tokens.empty()) {
      admit(slot, r);
    } else if (r.n_computed < r.tokens.size() && random_() % 32 != 0) {
      compute(slot, r);
    } else {
      blocks_.release(slot, random_() % 8 != 0);
      r = {};
    }
    check_invariants();
  }

  void finish() {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (!running_[static_cast<size_t>(slot)].tokens.empty()) blocks_.release(slot, true);
      running_[static_cast<size_t>(slot)] = {};
    }
    check_invariants();
    CHECK(blocks_.n_free() + blocks_.n_unused_cached() == n_blocks_);
    CHECK(static_cast<int>(pool().free().size()) + pool().n_kept() == n_window_);
    CHECK(blocks_.n_promised() == 0);
    CHECK(blocks_.n_window_promised() == 0);
  }

  int n_hits = 0, n_shorter = 0, n_refused = 0;

 private:
  struct Running {
    Tokens tokens;
    size_t n_computed = 0;
    bool committed = true;
  };

  const WindowPool& pool() const { return blocks_.window_pool(); }
  static Tokens prefix(const Tokens& tokens, int n_blocks) {
    return {tokens.begin(), tokens.begin() + std::ptrdiff_t{n_blocks} * kWidth};
  }

  /// Returns the length of the longest reusable prefix according to the model: all its full blocks must be in
  /// the tree, and the window blocks of its last window - 1 positions must be kept.
  int expected_hit(const Tokens& prompt) const {
    std::map<Tokens, int32_t> registered;  // prefix -> its window block or -1
    for (const auto& [id, text] : registered_) registered[text] = blocks_.window_of(id);
    int best = 0;
    for (int n = 1; n <= (static_cast<int>(prompt.size()) - 1) / kWidth; ++n) {
      if (!registered.contains(prefix(prompt, n))) break;
      bool whole = true;
      for (int p = std::max(0, n * kWidth - (window_ - 1)); p < n * kWidth; ++p)
        whole = whole && registered.at(prefix(prompt, p / kWidth + 1)) >= 0;
      if (whole) best = n;
    }
    return best * kWidth;
  }

  void admit(int slot, Running& r) {
    Tokens tokens(1 + random_() % (kWidth * kMaxBlocks));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random_() % 5 == 0);
    const size_t n_prompt = 1 + random_() % tokens.size();
    const Tokens prompt(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n_prompt));
    const bool reuse = random_() % 4 != 0;
    // Full blocks: reused ones stay in the map until another sequence takes them.
    forget_evicted();
    const int expected = reuse ? expected_hit(prompt) : 0;
    const std::optional<int> n_cached = blocks_.reserve(slot, prompt, static_cast<int>(tokens.size()), reuse);
    if (!n_cached) {
      ++n_refused;
      return;
    }
    REQUIRE(*n_cached == expected);
    n_hits += *n_cached > 0 ? 1 : 0;
    int n_walked = 0;
    while ((n_walked + 1) * kWidth < static_cast<int>(n_prompt) &&
           is_registered(prefix(prompt, n_walked + 1)))
      ++n_walked;
    if (reuse && *n_cached < n_walked * kWidth) ++n_shorter;
    r = {tokens, static_cast<size_t>(*n_cached), reuse || random_() % 2 == 0};
    check_seen(slot, r, *n_cached);
  }

  bool is_registered(const Tokens& text) const {
    return std::ranges::any_of(registered_, [&](const auto& one) { return one.second == text; });
  }

  void compute(int slot, Running& r) {
    const size_t before = r.n_computed;
    const size_t most = std::min(r.tokens.size(), before + 1 + random_() % static_cast<uint64_t>(step_));
    blocks_.extend(slot, static_cast<int>(most));
    // Some tokens were drafts that were rejected.
    r.n_computed = before + 1 + random_() % (most - before);
    const Tokens ids = window_row(blocks_, slot);
    for (size_t p = before; p < most; ++p) {
      const int32_t id = ids[p / kWidth];
      REQUIRE(id >= 0);
      REQUIRE(pool().n_refs(id) == 1);  // only the slot itself uses the block that it writes
      REQUIRE(pool().owner(id) == -1);
      written_[id].resize(kWidth);
      written_[id][p % kWidth] =
          p < r.n_computed ? Tokens(r.tokens.begin(), r.tokens.begin() + static_cast<std::ptrdiff_t>(p) + 1)
                           : Tokens{-1};
    }
    check_seen(slot, r, static_cast<int>(most));
    const auto done = std::span(r.tokens).first(r.n_computed);
    if (r.committed) {
      blocks_.commit(slot, done);
      const Tokens after = block_row(blocks_, slot);
      for (int n = 1; n * kWidth <= static_cast<int>(r.n_computed); ++n)
        registered_[after[static_cast<size_t>(n) - 1]] = prefix(r.tokens, n);
    } else {
      blocks_.move_on(slot, static_cast<int>(r.n_computed));
    }
    check_seen(slot, r, static_cast<int>(r.n_computed));
  }

  /// Checks that the slot's window table has all positions that position n_computed and later ones see, and
  /// that these were written for this text.
  void check_seen(int slot, const Running& r, int n_positions) const {
    const Tokens ids = window_row(blocks_, slot);
    const int first = std::max(0, static_cast<int>(r.n_computed) - (window_ - 1));
    for (int p = first; p < std::min(n_positions, static_cast<int>(r.n_computed)); ++p) {
      const int32_t id = ids[static_cast<size_t>(p / kWidth)];
      REQUIRE(id >= 0);
      REQUIRE(written_.at(id)[static_cast<size_t>(p % kWidth)] ==
              Tokens(r.tokens.begin(), r.tokens.begin() + p + 1));
    }
  }

  /// Full blocks that are free again hold no text.
  void forget_evicted() {
    std::erase_if(registered_, [&](const auto& one) { return !blocks_.is_registered(one.first); });
  }

  void check_invariants() {
    REQUIRE(blocks_.n_promised() <= blocks_.n_free() + blocks_.n_unused_cached());
    REQUIRE(blocks_.n_window_promised() <= n_window_);
    // No block is in two lists.
    std::set<int32_t> free(pool().free().begin(), pool().free().end());
    REQUIRE(free.size() == pool().free().size());
    std::map<int32_t, int> users;
    for (int slot = 0; slot < kSlots; ++slot) {
      const Tokens ids = window_row(blocks_, slot), full = block_row(blocks_, slot);
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0) continue;
        ++users[ids[i]];
        REQUIRE(full[i] >= 0);
        const int32_t owner = pool().owner(ids[i]);
        REQUIRE((owner == -1 || owner == full[i]));
      }
    }
    int n_kept = 0;
    for (int32_t id = 0; id < n_window_; ++id) {
      const int n = users.contains(id) ? users.at(id) : 0;
      REQUIRE(pool().n_refs(id) == n);
      const int32_t owner = pool().owner(id);
      if (owner >= 0) REQUIRE(blocks_.window_of(owner) == id);
      REQUIRE(free.contains(id) == (n == 0 && owner == -1));
      n_kept += n == 0 && owner >= 0 ? 1 : 0;
    }
    REQUIRE(pool().n_kept() == n_kept);
  }

  std::mt19937_64 random_;
  const int window_, step_, n_blocks_, n_window_;
  KvBlocks blocks_;
  std::vector<Running> running_;
  std::map<int32_t, std::vector<Tokens>> written_;  // window block -> for each position all tokens up to it
  std::map<int32_t, Tokens> registered_;            // full block -> all tokens up to its end
};

}  // namespace

TEST_CASE("kv windows: random traffic never reuses missing blocks, breaks a promise or loses a block") {
  const uint64_t seed = GENERATE(range(0, 56));
  INFO("seed " << seed);
  Traffic traffic(seed);
  for (int turn = 0; turn < 1500; ++turn) traffic.turn();
  traffic.finish();
}

TEST_CASE("kv windows: random traffic meets prefixes whose windows were evicted") {
  int n_hits = 0, n_shorter = 0, n_refused = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Traffic traffic(seed);
    for (int turn = 0; turn < 300; ++turn) traffic.turn();
    n_hits += traffic.n_hits;
    n_shorter += traffic.n_shorter;
    n_refused += traffic.n_refused;
  }
  CHECK(n_hits > 100);
  CHECK(n_shorter > 20);
  CHECK(n_refused > 20);
}

TEST_CASE("fixed blocks: a slot's window blocks are a ring that is long enough for its steps") {
  const StepLimits limits{
      .max_tokens = 40, .block_tokens = 4, .n_blocks = 32, .window = {.n_positions = 6, .n_blocks = 10}};
  const FixedBlocks blocks(limits, 2);
  CHECK(blocks.max_positions() == 64);
  CHECK(blocks.max_step() == 9);
  CHECK(blocks_at_once(6, blocks.max_step(), 4) == 5);
  CHECK(blocks_at_once(6, blocks.max_step() + 1, 4) == 6);
  Batch batch;
  blocks.set_tables(batch);
  CHECK(batch.max_blocks == 16);
  std::set<int32_t> first, second;
  for (size_t i = 0; i < 16; ++i) {
    first.insert(batch.window_tables[i]);
    second.insert(batch.window_tables[16 + i]);
    CHECK(batch.window_tables[i] == batch.window_tables[i % 5]);
  }
  CHECK(first.size() == 5);
  CHECK(second.size() == 5);
  CHECK(std::ranges::none_of(first, [&](int32_t id) { return second.contains(id); }));
  CHECK(std::set<int32_t>(batch.block_tables.begin(), batch.block_tables.end()).size() == 32);
  // For 60 positions, blocks 10 to 14 are there; position 45 sees 40 and later ones.
  CHECK(blocks.can_go_on(60, 45));
  CHECK_FALSE(blocks.can_go_on(60, 44));
  CHECK(blocks.can_go_on(60, 0));
  CHECK(FixedBlocks({.max_tokens = 40, .block_tokens = 4, .n_blocks = 32}, 2).can_go_on(60, 1));
}

TEST_CASE("fixed blocks: slots without blocks of their own are refused with the numbers") {
  const StepLimits limits{.max_tokens = 40, .block_tokens = 4, .n_blocks = 3};
  CHECK(FixedBlocks(limits, 3).max_positions() == 4);
  CHECK_THROWS_WITH(FixedBlocks(limits, 4), ContainsSubstring("3 blocks") && ContainsSubstring("4 slots"));
}
