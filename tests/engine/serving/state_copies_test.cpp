// Which snapshots of states a step makes.
#include "engine/serving/state_copies.h"

#include <algorithm>
#include <memory>

#include "tests/support/catch.h"

namespace hearth::state_copies_test {
namespace {

constexpr int kWidth = 16;

struct Step {
  explicit Step(int n_slots)
      : blocks(1024, kWidth, n_slots, 256, {}, 0, 32), slots(static_cast<size_t>(n_slots)) {}

  /// Adds a sequence that computes its tokens [begin, begin + n_tokens) in the step.
  void add(int slot, int n_prompt, int begin, int n_tokens, int n_drafted = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->tokens.resize(static_cast<size_t>(std::max(n_prompt, begin + n_tokens - n_drafted)));
    sequence->n_prompt = n_prompt;
    slots[static_cast<size_t>(slot)] = std::move(sequence);
    pieces.push_back({.slot = slot, .begin = begin, .n_tokens = n_tokens, .n_drafted = n_drafted});
  }
  std::vector<int> rows(bool of_answers = true) {
    batch.clear();
    add_state_copies(pieces, slots, of_answers, blocks, batch);
    std::vector<int> rows;
    for (const StateCopy& copy : batch.state_copies) rows.push_back(copy.row);
    return rows;
  }

  KvBlocks blocks;
  std::vector<std::unique_ptr<Sequence>> slots;
  std::vector<StepPiece> pieces;
  Batch batch;
};

}  // namespace

TEST_CASE("state copies: the ends of messages and of the prompt, rounded down to KV blocks") {
  Step step(1);
  step.add(0, 200, 0, 200);
  step.slots[0]->request.prefix_ends = {50, 60, 150};
  CHECK(step.rows() == std::vector<int>{47, 143, 191});
}

TEST_CASE("state copies: none that would save little, and none of prompts that are computed whole") {
  Step step(1);
  step.add(0, 30, 0, 30);
  CHECK(step.rows().empty());
  step = Step(1);
  step.add(0, 200, 0, 200);
  step.slots[0]->request.prompt_logprobs = true;
  CHECK(step.rows().empty());
}

TEST_CASE("state copies: an answer has one every 64 tokens, but not after a draft") {
  Step step(1);
  step.add(0, 100, 159, 1);
  step.slots[0]->n_copied = 96;
  CHECK(step.rows() == std::vector<int>{0});
  step = Step(1);
  step.add(0, 100, 158, 3, /*n_drafted=*/2);
  step.slots[0]->n_copied = 96;
  CHECK(step.rows().empty());
  step = Step(1);
  step.add(0, 100, 159, 1);
  step.slots[0]->n_copied = 96;
  CHECK(step.rows(/*of_answers=*/false).empty());
}

TEST_CASE("state copies: prompts come before answers if a step can make no more") {
  Step step(kMostStateCopies + 2);
  for (int slot = 0; slot <= kMostStateCopies; ++slot) step.add(slot, 100, 191, 1);
  step.add(kMostStateCopies + 1, 100, 0, 100);
  const std::vector<int> rows = step.rows();
  CHECK(rows.size() == kMostStateCopies);
  CHECK(std::ranges::is_sorted(rows));
  CHECK(rows.back() == kMostStateCopies + 1 + 95);
}

}  // namespace hearth::state_copies_test
