// Tests the results that pieces of a step give a sequence, without an engine: parts of prompts, scores,
// embeddings, tokens.
#include "engine/generation/piece_results.h"

#include <limits>
#include <utility>

#include "tests/support/catch.h"

namespace hearth::piece_results_test {
namespace {

constexpr int kVocab = 10;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sequence sequence_of(std::vector<int32_t> prompt, int max_tokens) {
  Sequence sequence;
  sequence.stream = std::make_shared<TokenStream>(1);
  sequence.n_prompt = static_cast<int>(prompt.size());
  sequence.tokens = std::move(prompt);
  sequence.request.max_tokens = max_tokens;
  sequence.request.sampling.temperature = 0;
  return sequence;
}

/// n rows of logits; row i's likeliest token is i + 3.
std::vector<float> rows(int n) {
  std::vector<float> logits(static_cast<size_t>(n * kVocab));
  for (int i = 0; i < n; ++i) logits[static_cast<size_t>(i * kVocab + i + 3)] = 5;
  return logits;
}

template <typename Event>
std::optional<Event> next_event(Sequence& sequence) {
  std::optional<StreamEvent> event = sequence.stream->pop_for(std::chrono::milliseconds(0));
  if (!event) return std::nullopt;
  return std::get<Event>(std::move(event->what));
}

bool is_prefilled(const Sequence& sequence) {
  return sequence.prefilled_at != std::chrono::steady_clock::time_point{};
}

}  // namespace

TEST_CASE("piece results: a prompt gives its first token where it ends, and not before") {
  PieceResults results(kVocab);
  Sequence sequence = sequence_of({1, 2, 3, 4, 5}, 10);
  PieceResult result = results.publish(sequence, {.begin = 0, .n_tokens = 3}, {});
  CHECK_FALSE(result.ends_prompt);
  CHECK(result.chosen.n_tokens == 0);
  CHECK_FALSE(is_prefilled(sequence));

  result = results.publish(sequence, {.begin = 3, .n_tokens = 2, .first_row = 1, .n_rows = 1}, rows(1));
  CHECK(result.ends_prompt);
  CHECK(result.chosen.n_tokens == 1);
  CHECK_FALSE(result.chosen.end);
  CHECK(is_prefilled(sequence));
  CHECK(next_event<TokenEvent>(sequence)->token == 3);

  // The next token, with a draft of two: one is right.
  sequence.drafts.looked_up.tokens = {3, 7};
  result = results.publish(sequence, {.begin = 5, .n_tokens = 3, .first_row = 0, .n_rows = 3, .n_drafted = 2},
                           rows(3));
  CHECK_FALSE(result.ends_prompt);
  CHECK(result.chosen.n_accepted == 1);
  CHECK(sequence.tokens == std::vector<int32_t>{1, 2, 3, 4, 5, 3, 3, 4});
}

TEST_CASE("piece results: while known tokens are left to compute, nothing is chosen") {
  PieceResults results(kVocab);
  Sequence sequence = sequence_of({1, 2, 3}, 10);
  sequence.tokens.insert(sequence.tokens.end(), {4, 5});  // generated before the sequence was set back
  PieceResult result = results.publish(sequence, {.begin = 0, .n_tokens = 4}, {});
  CHECK(result.chosen.n_tokens == 0);
  result = results.publish(sequence, {.begin = 4, .n_tokens = 1, .first_row = 0, .n_rows = 1}, rows(1));
  CHECK(result.chosen.n_tokens == 1);
  CHECK_FALSE(result.ends_prompt);  // it had ended before
}

TEST_CASE("piece results: a scored prompt's rows score the tokens after them") {
  PieceResults results(kVocab);
  Sequence sequence = sequence_of({1, 3, 4, 9}, 1);
  sequence.request.prompt_logprobs = true;
  sequence.request.n_top_logprobs = 1;
  CHECK_FALSE(results.publish(sequence, {.begin = 0, .n_tokens = 2, .first_row = 0, .n_rows = 2}, rows(2))
                  .chosen.end);
  const std::optional<PromptEvent> first = next_event<PromptEvent>(sequence);
  REQUIRE(first);
  REQUIRE(first->tokens.size() == 2);
  CHECK(first->tokens[0].token == 3);
  CHECK(first->tokens[1].token == 4);
  CHECK(first->tokens[1].top.front().token == 4);

  // The last row chooses a token instead.
  const PieceResult result =
      results.publish(sequence, {.begin = 2, .n_tokens = 2, .first_row = 0, .n_rows = 2}, rows(2));
  const std::optional<PromptEvent> last = next_event<PromptEvent>(sequence);
  REQUIRE(last);
  REQUIRE(last->tokens.size() == 1);
  CHECK(last->tokens[0].token == 9);
  CHECK(last->tokens[0].top.front().token == 3);
  CHECK(next_event<TokenEvent>(sequence)->token == 4);
  REQUIRE(result.chosen.end);
  CHECK(result.chosen.end->reason == FinishReason::kLength);
}

TEST_CASE("piece results: a scored prompt with NaN logits fails before anything is reported") {
  PieceResults results(kVocab);
  Sequence sequence = sequence_of({1, 3, 4}, 1);
  sequence.request.prompt_logprobs = true;
  std::vector<float> logits = rows(3);
  logits[kVocab + 2] = kNan;
  const PieceResult result =
      results.publish(sequence, {.begin = 0, .n_tokens = 3, .first_row = 0, .n_rows = 3}, logits);
  REQUIRE(result.chosen.end);
  CHECK(result.chosen.end->reason == FinishReason::kFailed);
  CHECK_FALSE(result.ends_prompt);
  CHECK_FALSE(sequence.stream->pop_for(std::chrono::milliseconds(0)));
}

TEST_CASE("piece results: with max_tokens 0 the sequence ends with its prompt") {
  PieceResults results(kVocab);
  Sequence sequence = sequence_of({1, 2}, 0);
  const PieceResult result = results.publish(sequence, {.begin = 0, .n_tokens = 2}, {});
  CHECK(result.ends_prompt);
  REQUIRE(result.chosen.end);
  CHECK(result.chosen.end->reason == FinishReason::kLength);
}

TEST_CASE("piece results: an embedding is pooled over its pieces and ends the sequence") {
  PieceResults results(kVocab);
  Sequence sequence = sequence_of({1, 2, 3}, 0);
  sequence.request.embedding = Pooling::kMean;
  sequence.pooled.emplace(2);
  const std::vector<float> two = {1, 0, 2, 0};
  CHECK_FALSE(
      results.publish(sequence, {.begin = 0, .n_tokens = 2, .first_row = 0, .n_rows = 2}, two).chosen.end);
  CHECK_FALSE(is_prefilled(sequence));
  const bool damaged = GENERATE(false, true);
  const std::vector<float> one = {0, damaged ? kNan : 4.0f};
  const PieceResult result =
      results.publish(sequence, {.begin = 2, .n_tokens = 1, .first_row = 0, .n_rows = 1}, one);
  CHECK(result.ends_prompt);
  REQUIRE(result.chosen.end);
  if (damaged) {
    CHECK(result.chosen.end->reason == FinishReason::kFailed);
    CHECK_FALSE(sequence.stream->pop_for(std::chrono::milliseconds(0)));
    return;
  }
  CHECK(result.chosen.end->reason == FinishReason::kStop);
  CHECK(next_event<EmbeddingEvent>(sequence)->values == std::vector<float>{0.6f, 0.8f});
}

/// A model whose head adds up the numbers that it is given.
struct AddingModel final : ForwardModel {
  StepLimits limits() const override { return {}; }
  StepOutput forward(const Batch&) override { return {}; }
  std::span<const float> apply_head(std::span<const float> pooled) override {
    result = {0.0f, 3.0f};
    for (const float x : pooled) result[0] += x;
    return result;
  }
  std::vector<float> result;
};

TEST_CASE("piece results: a head makes scores, or the embedding, of the mean") {
  for (const bool scores : {false, true}) {
    AddingModel model;
    PieceResults results(kVocab, &model, scores);
    Sequence sequence = sequence_of({1, 2}, 0);
    sequence.request.embedding = Pooling::kMean;
    sequence.pooled.emplace(2);
    const StepPiece piece{.begin = 0, .n_tokens = 2, .first_row = 0, .n_rows = 2};
    CHECK(results.publish(sequence, piece, std::vector<float>{1, 4, 3, 0}).chosen.end->reason ==
          FinishReason::kStop);
    const std::vector<float> expected = scores ? std::vector<float>{4, 3} : std::vector<float>{0.8f, 0.6f};
    CHECK(next_event<EmbeddingEvent>(sequence)->values == expected);
    // A broken model's result is an error.
    sequence.pooled.emplace(2);
    CHECK(results.publish(sequence, piece, std::vector<float>{1, 4, 3, kNan}).chosen.end->reason ==
          FinishReason::kFailed);
  }
}

}  // namespace hearth::piece_results_test
