// Embedding with the scripted model: what is pooled, that nothing but the text itself changes the vector, and
// that concurrent generations and the prefix cache are not affected.
#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <random>
#include <stdexcept>

#include "engine/engine.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;

namespace {

constexpr size_t kModel = 11;  // ScriptedModel's d_model

std::vector<float> hidden_after(std::span<const int32_t> history) {
  std::vector<float> hidden(kModel);
  ScriptedModel::hashed()(history, hidden);
  return hidden;
}

// The vector by its definition, computed without an engine.
std::vector<float> expected(const std::vector<int32_t>& prompt, Pooling pooling) {
  std::vector<double> sums(kModel, 0.0);
  for (size_t n = 1; n <= prompt.size(); ++n) {
    if (pooling == Pooling::kFirst && n > 1) break;
    if (pooling == Pooling::kLast && n < prompt.size()) continue;
    const std::vector<float> hidden = hidden_after(std::span(prompt).first(n));
    for (size_t i = 0; i < kModel; ++i) sums[i] += double{hidden[i]};
  }
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  std::vector<float> unit;
  for (const double sum : sums) unit.push_back(static_cast<float>(sum / std::sqrt(squares)));
  return unit;
}

ScriptedModel model_with_hidden(ScriptedModel::HiddenScript hidden) {
  ScriptedModel::Options options;
  options.hidden = std::move(hidden);
  return ScriptedModel(std::move(options));
}

}  // namespace

TEST_CASE("engine: an embedding pools the right hidden states, whatever the chunks") {
  const Pooling pooling = GENERATE(Pooling::kMean, Pooling::kFirst, Pooling::kLast);
  const std::vector<int32_t> prompt = some_tokens(53, 1);
  for (const int chunk : {1, 2, 3, 7, 16, 64, 1000}) {
    for (const int max_tokens : {3, 10, 64}) {
      ScriptedModel::Options options;
      options.limits.max_tokens = max_tokens;
      options.limits.max_logit_rows = 3;  // far fewer than the rows that are pooled
      ScriptedModel model(options);
      Engine engine(model, {.n_slots = 3, .context_tokens = 53, .prefill_chunk = chunk});
      const Answer answer = ask(engine, embedding(prompt, pooling));
      CHECK(answer.embedding == expected(prompt, pooling));
      CHECK(answer.tokens.empty());
      CHECK(answer.finished.reason == FinishReason::kStop);
      CHECK(answer.finished.n_prompt_tokens == 53);
      CHECK(answer.finished.n_generated_tokens == 0);
      CHECK(engine.status().n_prompt_tokens == 53);
    }
  }
}

TEST_CASE("engine: many embeddings among generations get the vectors of each alone, and disturb no answer") {
  std::mt19937_64 random(4);
  GenerationRequest request;
  std::vector<std::vector<float>> vectors;
  for (int i = 0; i < 40; ++i) {
    const Pooling pooling = static_cast<Pooling>(i % 3);
    const std::vector<int32_t> prompt = some_tokens(1 + static_cast<int>(random() % 60), random());
    vectors.push_back(expected(prompt, pooling));
    request.sequences.push_back(embedding(prompt, pooling));
  }
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 5, .context_tokens = 100, .prefill_chunk = 16});
  const std::vector<int32_t> first = some_tokens(30, 5), second = some_tokens(9, 6),
                             third = some_tokens(44, 7);
  const auto before = submit(engine, greedy(first, 40));
  const auto embedded = submit(engine, std::move(request));
  const auto beside = submit(engine, greedy(second, 30));
  const auto scoring = submit(engine, scored(third, 0));
  const std::vector<Answer> answers = read_all(*embedded, 40);
  for (size_t i = 0; i < 40; ++i) CHECK(answers[i].embedding == vectors[i]);
  CHECK(read_all(*before, 1).front().tokens == continuation(first, 40));
  CHECK(read_all(*beside, 1).front().tokens == continuation(second, 30));
  CHECK(read_all(*scoring, 1).front().prompt.size() == 43);
}

TEST_CASE("engine: an embedding neither uses the prefix cache nor adds to it") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 100});
  const std::vector<int32_t> prompt = some_tokens(30, 8);
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    const Answer answer = ask(engine, embedding(prompt, pooling));
    CHECK(answer.finished.n_cached_tokens == 0);
    CHECK(answer.embedding == expected(prompt, pooling));
  }
  CHECK(ask(engine, greedy(prompt, 5)).finished.n_cached_tokens == 0);
  CHECK(ask(engine, embedding(prompt, Pooling::kMean)).finished.n_cached_tokens == 0);
  CHECK(ask(engine, greedy(prompt, 5)).finished.n_cached_tokens == 28);
}

TEST_CASE("engine: embeddings of more text than the cache holds do not evict a conversation's prefix") {
  ScriptedModel model({});  // 1024 positions
  Engine engine(model, {.n_slots = 2, .context_tokens = 400});
  const std::vector<int32_t> conversation = some_tokens(200, 9);
  ask(engine, greedy(conversation, 5));
  for (uint64_t i = 0; i < 10; ++i) ask(engine, embedding(some_tokens(400, 10 + i), Pooling::kMean));
  CHECK(ask(engine, greedy(conversation, 5)).finished.n_cached_tokens == 196);
}

TEST_CASE("engine: an embedding that is cancelled ends without a vector") {
  std::promise<std::shared_ptr<TokenStream>> promise;
  std::shared_future<std::shared_ptr<TokenStream>> stream = promise.get_future();
  int n_steps = 0;
  ScriptedModel::Options options;
  options.before_step = [&](const Batch&) {
    if (++n_steps == 3) stream.get()->cancel();
  };
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 1, .context_tokens = 100, .prefill_chunk = 8});
  promise.set_value(submit(engine, embedding(some_tokens(100, 30), Pooling::kMean)));
  const Answer answer = read_all(*stream.get(), 1).front();
  CHECK(answer.finished.reason == FinishReason::kCancelled);
  CHECK(answer.embedding.empty());
  CHECK(n_steps == 3);
}

TEST_CASE("engine: hidden states that are not numbers fail only their own embedding; zeros stay zeros") {
  ScriptedModel model = model_with_hidden([](std::span<const int32_t> history, std::span<float> hidden) {
    std::ranges::fill(hidden, 0.0f);
    if (history.front() == 1) hidden[3] = std::numeric_limits<float>::quiet_NaN();
    if (history.front() == 2) hidden[4] = std::numeric_limits<float>::infinity();
  });
  Engine engine(model, {.n_slots = 3, .context_tokens = 20});
  const auto stream = submit(
      engine, GenerationRequest{{embedding({1, 5, 6}, Pooling::kMean), embedding({2, 5, 6}, Pooling::kFirst),
                                 embedding({3, 5, 6}, Pooling::kLast)}});
  const std::vector<Answer> answers = read_all(*stream, 3);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(answers[i].finished.reason == FinishReason::kFailed);
    CHECK_THAT(answers[i].finished.error, ContainsSubstring("NaN or an infinity"));
    CHECK(answers[i].embedding.empty());
  }
  CHECK(answers[2].finished.reason == FinishReason::kStop);
  CHECK(answers[2].embedding == std::vector<float>(kModel, 0.0f));
  CHECK_FALSE(engine.status().failed);
}

TEST_CASE("engine: the largest hidden states still give a vector of length 1") {
  ScriptedModel model = model_with_hidden([](std::span<const int32_t>, std::span<float> hidden) {
    std::ranges::fill(hidden, -std::numeric_limits<float>::max());
  });
  Engine engine(model, {.n_slots = 1, .context_tokens = 200});
  const Answer answer = ask(engine, embedding(some_tokens(200, 31), Pooling::kMean));
  for (const float value : answer.embedding) CHECK(value == static_cast<float>(-1 / std::sqrt(11.0)));
}

TEST_CASE("engine: a text longer than the context is not embedded") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 1, .context_tokens = 20});
  CHECK(refusal_of(engine, {{embedding(some_tokens(21, 1), Pooling::kMean)}}) == Refusal::kContextExceeded);
  CHECK(ask(engine, embedding(some_tokens(20, 1), Pooling::kMean)).finished.reason == FinishReason::kStop);
}

TEST_CASE("engine: a sequence that is embedded can neither generate nor score") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 1, .context_tokens = 20});
  SequenceRequest generates = embedding({1, 2}, Pooling::kLast);
  generates.max_tokens = 1;
  SequenceRequest scores = embedding({1, 2}, Pooling::kLast);
  scores.prompt_logprobs = true;
  CHECK_THROWS_AS(engine.submit({{generates}}), std::invalid_argument);
  CHECK_THROWS_AS(engine.submit({{scores}}), std::invalid_argument);
}

TEST_CASE("engine: too few hidden states from the model fail the request, without a read past their end") {
  class Stingy : public ForwardModel {
   public:
    StepLimits limits() const override {
      return {.max_tokens = 8,
              .max_logit_rows = 8,
              .n_vocab = 10,
              .d_model = 6,
              .block_tokens = 4,
              .n_blocks = 8};
    }
    StepOutput forward(const Batch&) override { return {.logits = {}, .hidden = hidden_}; }

   private:
    std::vector<float> hidden_ = std::vector<float>(5);
  };
  Stingy model;
  Engine engine(model, {.n_slots = 1, .context_tokens = 16});
  CHECK_THAT(ask(engine, embedding({1}, Pooling::kLast)).finished.error,
             ContainsSubstring("5 values of hidden states, expected 6"));
}

TEST_CASE("engine: an encoder gets each text whole in one step, whatever the chunk, and several at once") {
  int most_texts = 0;
  ScriptedModel::Options options;
  options.limits.encodes = true;
  options.before_step = [&](const Batch& batch) {
    int n_texts = 0;
    for (size_t t = 0; t < batch.tokens.size(); ++t) {
      const bool begins = t == 0 || batch.slots[t] != batch.slots[t - 1];
      if (batch.positions[t] != (begins ? 0 : batch.positions[t - 1] + 1))
        throw std::logic_error("a text was cut");
      n_texts += begins ? 1 : 0;
    }
    most_texts = std::max(most_texts, n_texts);
  };
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 4, .context_tokens = 60, .prefill_chunk = 3});
  GenerationRequest request;
  std::vector<std::vector<float>> vectors;
  for (int i = 0; i < 20; ++i) {
    const std::vector<int32_t> prompt = some_tokens(1 + 7 * i % 60, static_cast<uint64_t>(i));
    const Pooling pooling = static_cast<Pooling>(i % 3);
    vectors.push_back(expected(prompt, pooling));
    request.sequences.push_back(embedding(prompt, pooling));
  }
  const std::vector<Answer> answers = read_all(*submit(engine, std::move(request)), 20);
  for (size_t i = 0; i < 20; ++i) CHECK(answers[i].embedding == vectors[i]);
  CHECK(most_texts > 1);
}

TEST_CASE("engine: an encoder generates nothing, and needs steps of a whole context") {
  ScriptedModel::Options options;
  options.limits.encodes = true;
  options.limits.generates = false;
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  CHECK_THROWS_AS(submit(engine, greedy(some_tokens(5, 1), 3)), std::invalid_argument);
  CHECK_THROWS_AS(Engine(model, {.n_slots = 2, .context_tokens = 65}), std::invalid_argument);
}
