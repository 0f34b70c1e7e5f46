// Tests how a single sequence is cut into steps.
#include "profiler/activity/sequence_run.h"

#include <numeric>

#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

namespace hearth::test {
namespace {

struct Step {
  std::vector<int32_t> tokens, positions, logit_rows;
};

/// A scripted model that records its steps. It fails if a step breaks its limits.
struct Recorded {
  explicit Recorded(StepLimits limits = {.max_tokens = 8,
                                         .max_logit_rows = 3,
                                         .n_vocab = 29,
                                         .block_tokens = 4,
                                         .n_blocks = 16})
      : model(
            {.limits = limits, .script = ScriptedModel::hashed(), .before_step = [this](const Batch& batch) {
               steps.push_back({batch.tokens, batch.positions, batch.logit_rows});
             }}) {}
  std::vector<size_t> sizes() const {
    std::vector<size_t> sizes;
    for (const Step& step : steps) sizes.push_back(step.tokens.size());
    return sizes;
  }
  std::vector<Step> steps;
  ScriptedModel model;
};

std::vector<int32_t> count_to(int n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<float> expected(const std::vector<int32_t>& history) {
  std::vector<float> logits(29);
  ScriptedModel::hashed()(history, logits);
  return logits;
}

bool same(std::span<const float> a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

TEST_CASE(
    "sequence run: a model with a window has a ring of blocks for it, and steps that the ring can take") {
  Recorded recorded({.max_tokens = 20,
                     .max_logit_rows = 3,
                     .n_vocab = 29,
                     .block_tokens = 4,
                     .n_blocks = 16,
                     .window = {.n_positions = 6, .n_blocks = 5}});
  SequenceRun run(recorded.model);
  std::vector<int32_t> text;
  for (int i = 0; i < 60; ++i) text.push_back(i % 29);
  for (int round = 0; round < 2; ++round) {
    CHECK(same(run.feed(text, 20), expected(text)));
    CHECK(std::ranges::max(recorded.sizes()) == 9);
    run.clear();
  }
}

TEST_CASE("sequence run: feeding goes in steps of a chunk, with logits of the last token only") {
  Recorded recorded;
  SequenceRun run(recorded.model);
  CHECK(same(run.feed(count_to(10), 4), expected(count_to(10))));
  CHECK(recorded.sizes() == std::vector<size_t>{4, 4, 2});
  CHECK(recorded.steps[0].logit_rows.empty());
  CHECK(recorded.steps[1].logit_rows.empty());
  CHECK(recorded.steps[2].logit_rows == std::vector<int32_t>{1});
  CHECK(recorded.steps[2].positions == std::vector<int32_t>{8, 9});
  // The next call continues the sequence.
  const std::vector<int32_t> next{10};
  CHECK(same(run.feed(next, 4), expected(count_to(11))));
  CHECK(recorded.steps[3].positions == std::vector<int32_t>{10});
}

TEST_CASE("sequence run: a chunk larger than the model's steps is cut to them") {
  Recorded recorded;
  SequenceRun run(recorded.model);
  CHECK(same(run.feed(count_to(20), 1000), expected(count_to(20))));
  CHECK(recorded.sizes() == std::vector<size_t>{8, 8, 4});
  recorded.steps.clear();
  run.clear();
  size_t rows = 0;
  run.score(count_to(20), 19, 1000, [&](size_t, std::span<const float>) { ++rows; });
  CHECK(rows == 1);
  CHECK(recorded.sizes() == std::vector<size_t>{8, 8, 3, 1});
}

TEST_CASE("sequence run: a cleared run starts anew") {
  Recorded recorded;
  SequenceRun run(recorded.model);
  run.feed(count_to(7), 7);
  run.clear();
  const std::vector<int32_t> other{5, 3};
  CHECK(same(run.feed(other, 7), expected(other)));
  CHECK(recorded.steps.back().positions == std::vector<int32_t>{0, 1});
}

TEST_CASE("sequence run: scoring gives every row from the first on, once and in order") {
  const int first = GENERATE(0, 1, 5, 8, 13, 16);
  const int chunk = GENERATE(1, 2, 3, 5, 8);
  Recorded recorded;
  SequenceRun run(recorded.model);
  const std::vector<int32_t> tokens = count_to(17);
  size_t next = static_cast<size_t>(first);
  run.score(tokens, next, chunk, [&](size_t i, std::span<const float> logits) {
    CHECK(i == next);
    CHECK(same(logits, expected(count_to(static_cast<int>(i) + 1))));
    ++next;
  });
  CHECK(next == tokens.size());
  for (const Step& step : recorded.steps) CHECK(static_cast<int>(step.tokens.size()) <= chunk);
}

TEST_CASE("sequence run: the model's whole cache can be used") {
  Recorded recorded;
  SequenceRun run(recorded.model);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 16 * 4; ++i) tokens.push_back(i % 29);
  CHECK(same(run.feed(tokens, 8), expected(tokens)));
}

}  // namespace hearth::test
