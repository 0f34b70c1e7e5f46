// The scheduler alone, step by step and without a model: what it admits and which tokens it takes.
#include "engine/serving/scheduler.h"

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/catch.h"

using namespace hearth;

namespace {

struct Spec {
  int n_prompt = 1;
  int max_tokens = 8;
  bool scoring = false;
  uint64_t request = 0;  // 0: a new one
  int32_t fill = -1;     // the prompt's token; -1: a new one
  uint64_t client = 0;
  int priority = 0;
};

// A scheduler with blocks, driven with made-up tokens.
struct Rig {
  explicit Rig(SchedulerLimits limits, int n_blocks = 1000, int block_tokens = 4, int max_blocks = 500)
      : blocks(n_blocks, block_tokens, limits.n_slots, max_blocks),
        scheduler(limits, blocks),
        limits_(limits) {}

  void add(const Spec& spec) {
    auto sequence = std::make_unique<Sequence>();
    ++n_added;
    sequence->request_id = spec.request != 0 ? spec.request : 1000 + static_cast<uint64_t>(n_added);
    sequence->index = n_added;
    sequence->client = spec.client;
    sequence->priority = spec.priority;
    sequence->tokens.assign(static_cast<size_t>(spec.n_prompt), spec.fill >= 0 ? spec.fill : 100 + n_added);
    sequence->n_prompt = spec.n_prompt;
    sequence->request.max_tokens = spec.max_tokens;
    sequence->request.prompt_logprobs = spec.scoring;
    scheduler.add(std::move(sequence));
  }

  std::vector<int> admit() {
    std::vector<int> admitted;
    scheduler.admit([&](Sequence& sequence, int /*slot*/) { admitted.push_back(sequence.index); });
    return admitted;
  }

  // One step: plans, checks the plan against the limits, computes it, and adds a token where one would be
  // sampled. Returns tokens per index; finished sequences leave.
  std::map<int, int> step() {
    scheduler.extend_promises([&](const Sequence& sequence) { set_back.push_back(sequence.index); });
    const std::span<const StepPiece> planned = scheduler.next_step();
    const std::vector<StepPiece> pieces(planned.begin(), planned.end());
    std::map<int, int> taken;
    int n_tokens = 0, n_rows = 0, n_prefill = 0;
    for (const StepPiece& piece : pieces) {
      Sequence& sequence = *scheduler.slots()[static_cast<size_t>(piece.slot)];
      REQUIRE(piece.n_tokens > 0);
      REQUIRE(piece.begin == sequence.n_computed);
      REQUIRE(piece.first_row + piece.n_rows <= piece.n_tokens);
      REQUIRE(taken.emplace(sequence.index, piece.n_tokens).second);
      n_tokens += piece.n_tokens;
      n_rows += piece.n_rows;
      const bool prefill = sequence.prefilling();
      if (prefill) n_prefill += piece.n_tokens;
      scheduler.computed(piece.slot, piece.n_tokens);
      if (sequence.prefilling()) {
        REQUIRE(piece.n_rows == (sequence.request.prompt_logprobs ? piece.n_tokens : 0));
        continue;
      }
      if (sequence.n_pending() > 0) {  // it was set back, and has not reached its last token again
        REQUIRE(piece.n_rows == 0);
        continue;
      }
      const int last_row = sequence.request.max_tokens > 0 ? 1 : 0;
      REQUIRE(piece.n_rows ==
              (prefill && sequence.request.prompt_logprobs ? piece.n_tokens - 1 : 0) + last_row);
      if (piece.n_rows > 0) REQUIRE(piece.first_row + piece.n_rows == piece.n_tokens - 1 + last_row);
      if (sequence.request.max_tokens > 0) sequence.tokens.push_back(7);
      if (sequence.n_generated() == sequence.request.max_tokens) {
        finished.push_back(sequence.index);
        scheduler.remove(piece.slot, true);
      }
    }
    REQUIRE(n_tokens <= limits_.max_tokens);
    REQUIRE(n_rows <= limits_.max_logit_rows);
    REQUIRE(n_prefill <= limits_.prefill_chunk);
    return taken;
  }

  KvBlocks blocks;
  Scheduler scheduler;
  SchedulerLimits limits_;
  int n_added = 0;
  std::vector<int> finished, set_back;
};

constexpr SchedulerLimits kFour{.n_slots = 4, .prefill_chunk = 16, .max_tokens = 64, .max_logit_rows = 16};

}  // namespace

TEST_CASE("scheduler: first come, first served into free slots") {
  Rig rig(kFour);
  for (int i = 0; i < 6; ++i) rig.add({.n_prompt = 2, .max_tokens = i == 1 ? 1 : 5});
  CHECK(rig.admit() == std::vector<int>{1, 2, 3, 4});
  CHECK(rig.admit().empty());
  CHECK(rig.scheduler.n_waiting() == 2);
  rig.step();
  CHECK(rig.finished == std::vector<int>{2});
  CHECK(rig.admit() == std::vector<int>{5});
  rig.step();
  CHECK(rig.admit().empty());
}

TEST_CASE("scheduler: a request behind a long list waits for one of the list's sequences, not for all") {
  Rig rig(kFour);
  for (int i = 0; i < 40; ++i) rig.add({.n_prompt = 2, .max_tokens = 1 + i % 2, .request = 7});
  CHECK(rig.admit() == std::vector<int>{1, 2, 3, 4});
  rig.add({.n_prompt = 2});
  rig.add({.n_prompt = 2});
  rig.step();
  CHECK(rig.finished == std::vector<int>{1, 3});
  CHECK(rig.admit() == std::vector<int>{41, 42});
  rig.step();
  CHECK(rig.finished == std::vector<int>{1, 3, 2, 4});
  CHECK(rig.admit() == std::vector<int>{5, 6});
}

TEST_CASE("scheduler: a long list always has a sequence in a slot, whatever comes behind it") {
  Rig rig(kFour);
  for (int i = 0; i < 200; ++i) rig.add({.n_prompt = 2, .max_tokens = 1 + i % 3, .request = 7});
  rig.admit();
  for (int i = 0; i < 50; ++i) {
    for (int k = 0; k < 4; ++k) rig.add({.n_prompt = 2, .max_tokens = 3});
    rig.step();
    rig.admit();
    CHECK(std::ranges::any_of(rig.scheduler.slots(),
                              [](const auto& sequence) { return sequence && sequence->request_id == 7; }));
  }
}

TEST_CASE("scheduler: clients share the slots, however many requests each has") {
  Rig rig({.n_slots = 4, .prefill_chunk = 16, .max_tokens = 20, .max_logit_rows = 20});
  for (int i = 0; i < 6; ++i) rig.add({.n_prompt = 1, .max_tokens = 100, .client = 7});  // 1 to 6
  rig.add({.n_prompt = 1, .max_tokens = 100, .client = 8});                              // 7, 8
  rig.add({.n_prompt = 1, .max_tokens = 100, .client = 8});
  rig.add({.n_prompt = 1, .max_tokens = 100, .client = 9});  // 9
  CHECK(rig.admit() == std::vector<int>{1, 7, 9, 2});
}

TEST_CASE("scheduler: with one slot clients take turns") {
  Rig rig({.n_slots = 1, .prefill_chunk = 16, .max_tokens = 20, .max_logit_rows = 20});
  for (int i = 0; i < 5; ++i) rig.add({.n_prompt = 1, .max_tokens = 1, .client = 7});  // 1 to 5
  for (int i = 0; i < 2; ++i) rig.add({.n_prompt = 1, .max_tokens = 1, .client = 8});  // 6, 7
  std::vector<int> order;
  for (int i = 0; i < 9; ++i) {
    for (const int index : rig.admit()) order.push_back(index);
    rig.step();
    if (i == 2)
      rig.add({.n_prompt = 1, .max_tokens = 1, .client = 9});  // 8: a new client, whose turn comes first
  }
  CHECK(order == std::vector<int>{1, 6, 2, 8, 7, 3, 4, 5});
}

TEST_CASE("scheduler: a priority orders the requests of one client, and takes no other client's turn") {
  Rig rig({.n_slots = 1, .prefill_chunk = 16, .max_tokens = 20, .max_logit_rows = 20});
  rig.add({.n_prompt = 1, .max_tokens = 1, .client = 7});                    // 1
  rig.add({.n_prompt = 1, .max_tokens = 1, .client = 8});                    // 2
  rig.add({.n_prompt = 1, .max_tokens = 1, .client = 7, .priority = -5});    // 3
  rig.add({.n_prompt = 1, .max_tokens = 1, .client = 7, .priority = -100});  // 4
  rig.add({.n_prompt = 1, .max_tokens = 1, .client = 8, .priority = 3});     // 5
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) {
    for (const int index : rig.admit()) order.push_back(index);
    rig.step();
  }
  CHECK(order == std::vector<int>{4, 2, 3, 5, 1});
}

TEST_CASE("scheduler: a long prompt never delays a running stream's next token") {
  Rig rig(kFour);
  rig.add({.n_prompt = 1, .max_tokens = 300});
  rig.add({.n_prompt = 1, .max_tokens = 300});
  rig.admit();
  rig.step();
  rig.add({.n_prompt = 1000});
  rig.add({.n_prompt = 900});
  rig.admit();
  int n_steps = 0;
  while (rig.finished.empty() && n_steps < 110) {
    const std::map<int, int> taken = rig.step();
    REQUIRE(taken.at(1) == 1);  // one step between two tokens of a running stream
    REQUIRE(taken.at(2) == 1);
    ++n_steps;
  }
  CHECK(n_steps == 110);
}

TEST_CASE("scheduler: a short prompt does not wait for a long one, nor a long one for short ones") {
  Rig rig(kFour);
  rig.add({.n_prompt = 1600});
  rig.admit();
  rig.step();
  rig.add({.n_prompt = 24, .max_tokens = 1});
  rig.admit();
  int n_steps = 0;
  while (rig.finished.empty()) {
    const std::map<int, int> taken = rig.step();
    REQUIRE(taken.at(1) >= 8);
    ++n_steps;
  }
  CHECK(n_steps == 3);  // 24 tokens at half of 16 per step

  // With an endless stream of short prompts, the long one still gets its half in every step.
  const Sequence& longest = *rig.scheduler.slots()[0];
  REQUIRE(longest.index == 1);
  while (longest.prefilling()) {
    while (rig.scheduler.n_waiting() < 3) rig.add({.n_prompt = 24, .max_tokens = 1});
    rig.admit();
    const int n_left = longest.n_prompt - longest.n_computed;
    REQUIRE(rig.step().at(1) >= std::min(n_left, 8));
  }
  CHECK(rig.finished.size() > 60);
}

TEST_CASE("scheduler: a prompt gets shorter steps beside decoding sequences, and whole ones alone") {
  SchedulerLimits limits = kFour;
  limits.prefill_beside = 6;
  Rig rig(limits);
  rig.add({.n_prompt = 40});
  rig.admit();
  CHECK(rig.step().at(1) == 16);
  rig.add({.n_prompt = 1, .max_tokens = 2});
  rig.admit();
  CHECK(rig.step() == std::map<int, int>{{1, 15}, {2, 1}});  // none is decoding yet
  CHECK(rig.step() == std::map<int, int>{{1, 6}, {2, 1}});
  CHECK(rig.finished == std::vector<int>{2});
  CHECK(rig.scheduler.room_for_drafts() == 6);
  CHECK(rig.step() == std::map<int, int>{{1, 3}});
}

TEST_CASE("scheduler: equal prompts finish one after the other, not all at the end") {
  Rig rig(kFour);
  for (int i = 0; i < 4; ++i) rig.add({.n_prompt = 64, .max_tokens = 1});
  rig.admit();
  for (int i = 0; i < 16; ++i) rig.step();
  CHECK(rig.finished == std::vector<int>{1, 2, 3, 4});
  Rig again(kFour);
  for (int i = 0; i < 4; ++i) again.add({.n_prompt = 64, .max_tokens = 1});
  again.admit();
  for (int i = 0; i < 4; ++i) again.step();
  CHECK(again.finished == std::vector<int>{1});
}

TEST_CASE("scheduler: scored prompts are cut so that their rows fit and leave room for others") {
  Rig rig({.n_slots = 3, .prefill_chunk = 64, .max_tokens = 64, .max_logit_rows = 6});
  rig.add({.n_prompt = 40, .max_tokens = 0, .scoring = true});
  rig.add({.n_prompt = 1, .max_tokens = 50});
  rig.add({.n_prompt = 10, .max_tokens = 2, .scoring = true});
  rig.admit();
  int n_steps = 0;
  while (rig.finished.size() < 3) {
    const std::map<int, int> taken = rig.step();
    if (n_steps > 0 && rig.finished.size() < 2) REQUIRE(taken.at(2) == 1);
    REQUIRE(++n_steps < 60);
  }
  CHECK(rig.finished == std::vector<int>{3, 1, 2});
}

TEST_CASE(
    "scheduler: siblings with the same prompt wait until the first has computed the part they can share") {
  Rig rig(kFour);
  for (int i = 0; i < 3; ++i) rig.add({.n_prompt = 42, .max_tokens = 3, .request = 5, .fill = 1});
  rig.add({.n_prompt = 4, .max_tokens = 30});
  for (const std::unique_ptr<Sequence>& sequence : rig.scheduler.slots()) REQUIRE_FALSE(sequence);
  CHECK(rig.admit() == std::vector<int>{1, 4});  // another request may go ahead meanwhile
  for (int i = 0; i < 2; ++i) {
    rig.step();
    CHECK(rig.admit().empty());
  }
  rig.step();  // 12 + 16 + 14: all 42 are computed
  CHECK(rig.admit() == std::vector<int>{2, 3});
  for (const std::unique_ptr<Sequence>& sequence : rig.scheduler.slots()) {
    if (sequence && sequence->index > 1 && sequence->index < 4) CHECK(sequence->n_cached == 40);
  }
  // If the blocks are already cached, no request has to wait.
  while (rig.finished.size() < 3) rig.step();
  for (int i = 0; i < 3; ++i) rig.add({.n_prompt = 42, .max_tokens = 3, .request = 6, .fill = 1});
  CHECK(rig.admit() == std::vector<int>{5, 6, 7});
}

TEST_CASE("scheduler: siblings that can share nothing do not wait") {
  Rig rig(kFour);
  for (int i = 0; i < 2; ++i)
    rig.add({.n_prompt = 4, .request = 5, .fill = 1});  // the last token is in block 0
  for (int i = 0; i < 2; ++i) rig.add({.n_prompt = 40, .scoring = true, .request = 6, .fill = 2});
  CHECK(rig.admit().size() == 4);
}

TEST_CASE("scheduler: a sequence that needs many blocks is not starved by small ones") {
  Rig rig(kFour, 10, 4, 10);
  rig.add({.n_prompt = 4, .max_tokens = 4});
  rig.add({.n_prompt = 30, .max_tokens = 10});  // all ten blocks
  rig.add({.n_prompt = 2, .max_tokens = 2});
  CHECK(rig.admit() == std::vector<int>{1});
  while (rig.finished.empty()) {
    rig.step();
    if (rig.finished.empty()) CHECK(rig.admit().empty());
  }
  CHECK(rig.admit() == std::vector<int>{2});
  while (rig.finished.size() < 2) rig.step();
  CHECK(rig.admit() == std::vector<int>{3});
}

namespace {

// A pool for one context of 1,000 positions.
struct SmallPool : Rig {
  SmallPool() : Rig(kFour, 250, 4, 250) {}
  int n_running() const { return scheduler.n_running(); }
};

}  // namespace

TEST_CASE("scheduler: sequences that may each need the whole pool run together") {
  SmallPool rig;
  for (int i = 0; i < 4; ++i) rig.add({.n_prompt = 10, .max_tokens = 990});
  // Each is promised 266 positions, which is 67 blocks, and there are 250.
  CHECK(rig.admit() == std::vector<int>{1, 2, 3});
  for (int i = 0; i < 200; ++i) rig.step();
  CHECK(rig.n_running() == 3);
  CHECK(rig.set_back.empty());
}

TEST_CASE(
    "scheduler: the newest sequence is set back, waits before all others and is then promised all its "
    "needs") {
  SmallPool rig;
  for (int i = 0; i < 3; ++i) rig.add({.n_prompt = 10, .max_tokens = 990});
  CHECK(rig.admit() == std::vector<int>{1, 2, 3});
  rig.add({.n_prompt = 10, .max_tokens = 20});
  while (rig.set_back.empty()) rig.step();
  CHECK(rig.set_back == std::vector<int>{3});
  CHECK(rig.scheduler.n_waiting() == 2);
  CHECK(rig.admit().empty());  // 4 would fit, but 3 came first
  while (rig.set_back.size() < 2) {
    rig.step();
    CHECK(rig.admit().empty());
  }
  CHECK(rig.set_back == std::vector<int>{3, 2});
  while (rig.finished.empty()) {
    rig.step();
    if (rig.finished.empty()) CHECK(rig.admit().empty());
  }
  CHECK(rig.finished == std::vector<int>{1});
  CHECK(rig.admit() == std::vector<int>{2});  // promised 1,000 positions
  CHECK(rig.blocks.n_promised_positions(0) == 1000);
  while (rig.finished.size() < 2) {
    rig.step();
    if (rig.finished.size() < 2) CHECK(rig.admit().empty());
  }
  CHECK(rig.admit() == std::vector<int>{3});
  while (rig.finished.size() < 3) rig.step();
  CHECK(rig.admit() == std::vector<int>{4});
  while (rig.finished.size() < 4) rig.step();
  CHECK(rig.finished == std::vector<int>{1, 2, 3, 4});
  CHECK(rig.set_back == std::vector<int>{3, 2});
}

TEST_CASE("scheduler: a sequence that was set back reuses what the prefix cache has kept of its tokens") {
  SmallPool rig;
  rig.add({.n_prompt = 300, .max_tokens = 600});
  rig.add({.n_prompt = 100, .max_tokens = 600});
  rig.admit();
  while (rig.set_back.empty()) rig.step();
  CHECK(rig.set_back == std::vector<int>{2});
  while (rig.finished.empty()) rig.step();
  CHECK(rig.admit() == std::vector<int>{2});
  const Sequence& sequence =
      **std::ranges::find_if(rig.scheduler.slots(), [](const auto& one) { return one != nullptr; });
  CHECK(sequence.n_cached == 0);  // as when it was first admitted
  CHECK(sequence.n_computed > 0);
  CHECK(sequence.n_computed < static_cast<int>(sequence.tokens.size()));
  while (rig.finished.size() < 2) rig.step();
  CHECK(rig.blocks.n_free() + rig.blocks.n_unused_cached() == 250);
  CHECK(rig.blocks.n_promised() == 0);
}

TEST_CASE("scheduler: a sequence that waits for blocks can be cancelled, which lets those behind it in") {
  SmallPool rig;
  rig.add({.n_prompt = 800, .max_tokens = 100});
  rig.add({.n_prompt = 500, .max_tokens = 100});
  rig.add({.n_prompt = 10, .max_tokens = 10});
  CHECK(rig.admit() == std::vector<int>{1});
  CHECK(rig.admit().empty());
  CHECK(rig.scheduler.remove_waiting([](const Sequence& s) { return s.index == 2; }).size() == 1);
  CHECK(rig.admit() == std::vector<int>{3});
  // A sequence that was set back can too.
  SmallPool other;
  for (int i = 0; i < 3; ++i) other.add({.n_prompt = 10, .max_tokens = 990});
  other.admit();
  while (other.set_back.empty()) other.step();
  CHECK(other.scheduler.remove_waiting([](const Sequence& s) { return s.was_set_back; }).size() == 1);
  CHECK(other.scheduler.n_waiting() == 0);
  CHECK(other.n_running() == 2);
}

TEST_CASE("scheduler: drafts set no sequence back") {
  SmallPool rig;
  for (int i = 0; i < 2; ++i)
    rig.add({.n_prompt = 236, .max_tokens = 764});  // 492 positions each: 246 blocks
  rig.admit();
  while (rig.scheduler.slots()[1]->tokens.size() < 490) rig.step();
  REQUIRE(rig.set_back.empty());
  Sequence& second = *rig.scheduler.slots()[1];
  second.drafts.n_wanted = 30;
  rig.scheduler.extend_promises([&](const Sequence& sequence) { rig.set_back.push_back(sequence.index); });
  CHECK(rig.set_back.empty());
  CHECK(second.drafts.n_wanted < 30);
  CHECK(static_cast<int>(second.tokens.size()) + second.drafts.n_wanted ==
        rig.blocks.n_promised_positions(1));
}

TEST_CASE("scheduler: a pool for one context serves any mix, and sets each sequence back once at most") {
  const uint64_t seed = GENERATE(range(0, 12));
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  SmallPool rig;
  std::map<int, int> n_set_back;
  int n_added = 0, n_steps = 0;
  while (n_added < 60 || !rig.scheduler.idle()) {
    if (n_added < 60 && random() % 40 == 0) {
      Spec spec{.n_prompt = 1 + static_cast<int>(random() % 300)};
      spec.max_tokens = random() % 3 == 0 ? 1000 - spec.n_prompt : static_cast<int>(random() % 400);
      spec.scoring = random() % 8 == 0;
      if (random() % 3 == 0) spec.request = 1 + random() % 3;
      if (random() % 2 == 0) spec.fill = static_cast<int32_t>(random() % 3);
      rig.add(spec);
      ++n_added;
    }
    rig.admit();
    if (rig.n_running() > 0) REQUIRE_FALSE(rig.step().empty());
    REQUIRE((rig.n_running() > 0 || rig.scheduler.idle() || !rig.admit().empty()));
    REQUIRE(++n_steps < 100000);
  }
  for (const int index : rig.set_back) CHECK(++n_set_back[index] == 1);
  CHECK(rig.finished.size() == 60);
  CHECK(rig.blocks.n_free() + rig.blocks.n_unused_cached() == 250);
  CHECK(rig.blocks.n_promised() == 0);
}

TEST_CASE("scheduler: waiting sequences can be removed by a predicate") {
  Rig rig(kFour);
  for (int i = 0; i < 8; ++i) rig.add({.n_prompt = 2});
  rig.admit();
  const auto removed = rig.scheduler.remove_waiting([](const Sequence& s) { return s.index % 2 == 0; });
  REQUIRE(removed.size() == 2);
  CHECK(removed[0]->index == 6);
  CHECK(removed[1]->index == 8);
  CHECK(rig.scheduler.n_waiting() == 2);
}

TEST_CASE("scheduler: any mix of requests is completed within the limits") {
  const uint64_t seed = GENERATE(range(0, 6));
  std::mt19937_64 random(seed);
  const int n_slots = 1 + static_cast<int>(random() % 5);
  const SchedulerLimits limits{.n_slots = n_slots,
                               .prefill_chunk = 1 + static_cast<int>(random() % 20),
                               .max_tokens = n_slots + static_cast<int>(random() % 30),
                               .max_logit_rows = n_slots + static_cast<int>(random() % 6)};
  Rig rig(limits, 25, 4, 25);
  for (int i = 0; i < 60; ++i) {
    Spec spec{.n_prompt = 1 + static_cast<int>(random() % 60), .max_tokens = static_cast<int>(random() % 40)};
    spec.scoring = random() % 4 == 0;
    if (random() % 3 == 0) spec.request = 1 + random() % 3;
    if (random() % 2 == 0) spec.fill = static_cast<int32_t>(random() % 3);
    rig.add(spec);
  }
  int n_steps = 0;
  while (!rig.scheduler.idle()) {
    rig.admit();
    REQUIRE(rig.scheduler.n_running() > 0);
    REQUIRE_FALSE(rig.step().empty());
    REQUIRE(++n_steps < 10000);
  }
  CHECK(rig.finished.size() == 60);
  CHECK(rig.blocks.n_free() + rig.blocks.n_unused_cached() == 25);
}

TEST_CASE(
    "scheduler: forced tokens go in together, half a chunk at most, and every decoding sequence takes part") {
  Rig rig({.n_slots = 3, .prefill_chunk = 8, .max_tokens = 32, .max_logit_rows = 8});
  for (int i = 0; i < 3; ++i) rig.add({.n_prompt = 2, .max_tokens = 100});
  rig.admit();
  rig.step();
  // 1 has ten forced tokens, 2 has three, and 3 has the one that it has drawn.
  const auto& slots = rig.scheduler.slots();
  slots[0]->tokens.insert(slots[0]->tokens.end(), 9, 5);
  slots[1]->tokens.insert(slots[1]->tokens.end(), 2, 5);
  const auto step = [&] {
    const std::span<const StepPiece> pieces = rig.scheduler.next_step();
    const std::vector<StepPiece> copy(pieces.begin(), pieces.end());
    for (const StepPiece& piece : copy) rig.scheduler.computed(piece.slot, piece.n_tokens);
    return copy;
  };
  std::vector<StepPiece> pieces = step();
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].n_tokens == 5);  // one, and half of the chunk
  CHECK(pieces[0].n_rows == 0);
  CHECK(pieces[1].n_tokens == 1);
  CHECK(pieces[1].n_rows == 0);
  CHECK(pieces[2].n_tokens == 1);
  CHECK(pieces[2].n_rows == 1);
  slots[2]->tokens.push_back(7);
  pieces = step();
  CHECK(pieces[0].n_tokens == 5);
  CHECK(pieces[0].n_rows == 1);  // its last token, from which the next is drawn
  CHECK(pieces[0].first_row == 4);
  CHECK(pieces[1].n_tokens == 1);
  CHECK(pieces[2].n_tokens == 1);
}

TEST_CASE("scheduler: the prefix cache holds only prompts if generated tokens are not kept") {
  const bool keep = GENERATE(true, false);
  INFO("keep " << keep);
  Rig rig(kFour);
  rig.scheduler.keep_generated(keep);
  rig.add({.n_prompt = 10, .max_tokens = 9, .fill = 5});
  rig.admit();
  for (int i = 0; i < 9; ++i) rig.step();
  REQUIRE(rig.finished == std::vector<int>{1});
  CHECK(rig.blocks.n_unused_cached() == (keep ? 4 : 2));  // of 18 computed tokens, or of 10, with 4 per block
  rig.add({.n_prompt = 10, .max_tokens = 1, .fill = 5});
  rig.admit();
  CHECK(rig.scheduler.slots()[0]->n_cached == 8);
}

TEST_CASE("scheduler: prompts that must not be cut are taken whole, the oldest first, then those that fit") {
  Rig rig({.n_slots = 5, .prefill_chunk = 20, .max_tokens = 25, .max_logit_rows = 8, .whole_prompts = true});
  for (const int n : {15, 10, 5, 20, 2}) rig.add({.n_prompt = n, .max_tokens = 0});
  CHECK(rig.admit().size() == 5);
  CHECK(rig.step() == std::map<int, int>{{1, 15}, {3, 5}});
  CHECK(rig.step() == std::map<int, int>{{2, 10}, {5, 2}});
  CHECK(rig.step() == std::map<int, int>{{4, 20}});
  CHECK(rig.scheduler.idle());
}

TEST_CASE("scheduler: no prompt that must not be cut waits forever") {
  Rig rig({.n_slots = 3, .prefill_chunk = 16, .max_tokens = 19, .max_logit_rows = 8, .whole_prompts = true});
  rig.add({.n_prompt = 9, .max_tokens = 0});
  rig.add({.n_prompt = 16, .max_tokens = 0});
  for (int i = 0; i < 20; ++i) rig.add({.n_prompt = 3 + i % 5, .max_tokens = 0});
  int n_steps = 0;
  for (; !rig.scheduler.idle(); ++n_steps) {
    rig.admit();
    for (const auto& [index, n_tokens] : rig.step()) {
      CHECK(n_tokens == (index == 1 ? 9 : index == 2 ? 16 : 3 + (index - 3) % 5));
    }
    if (n_steps < 2) CHECK(rig.finished.front() == 1);
    REQUIRE(n_steps < 22);
  }
  CHECK(rig.finished.size() == 22);
  CHECK(std::ranges::find(rig.finished, 2) - rig.finished.begin() <= 3);
}
