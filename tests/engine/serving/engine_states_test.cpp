// The engine over models with recurrent layers: prefixes continue from snapshots, drafts are taken back, and
// neither changes a bit of an answer.
#include <filesystem>
#include <memory>
#include <random>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace hearth::engine_states_test {
namespace {

constexpr int kContext = 512;
constexpr int kDraftContext = 64;  // of the tiny model that drafts

std::unique_ptr<ModelRuntime> load(const std::string& name, int n_slots, int chunk, int context = kContext) {
  LoadOptions options;
  options.path = std::filesystem::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
  options.n_threads = 2;
  options.n_slots = n_slots;
  options.prefill_chunk = chunk;
  options.context_tokens = context;
  return ModelRuntime::load(options);
}

std::vector<Answer> answers_alone(const std::string& name, std::span<const SequenceRequest> requests) {
  const auto model = load(name, 1, 128);
  std::vector<Answer> answers;
  for (const SequenceRequest& request : requests) {
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});  // a new prefix cache
    answers.push_back(ask(engine, request));
  }
  return answers;
}

/// Drafts the right continuation with some wrong tokens in it.
class FaultyDrafter final : public Drafter {
 public:
  explicit FaultyDrafter(std::vector<std::vector<int32_t>> texts) : texts_(std::move(texts)) {}
  void draft(const Sequence& sequence, std::vector<int32_t>& draft) override {
    draft.clear();
    const size_t n = sequence.tokens.size();
    const size_t end = n + random_() % 17;
    for (const std::vector<int32_t>& text : texts_) {
      if (text.size() < n || !std::ranges::equal(std::span(text).first(n), sequence.tokens)) continue;
      for (size_t i = n; i < std::min(end, text.size()); ++i)
        draft.push_back((text[i] + static_cast<int32_t>(random_() % 5 == 0)) % 97);
      return;
    }
  }

 private:
  std::vector<std::vector<int32_t>> texts_;
  std::mt19937 random_{7};
};

}  // namespace

TEST_CASE("engine over states: a conversation continues from the end of its last message") {
  const auto model = load("qwen35", 2, 64);
  Engine engine(*model, {.n_slots = 2, .context_tokens = kContext, .prefill_chunk = 64});
  SequenceRequest first = greedy(some_tokens(150, 1), 20);
  first.prefix_ends = {40, 139};
  CHECK(ask(engine, first).finished.n_cached_tokens == 0);
  // The answer is rendered in another way, so the texts part after 139 tokens.
  std::vector<int32_t> next(first.prompt.begin(), first.prompt.begin() + 139);
  for (const int32_t token : some_tokens(60, 2)) next.push_back(token);
  const SequenceRequest second = greedy(next, 20);
  const Answer reused = ask(engine, second);
  CHECK(reused.finished.n_cached_tokens == 128);
  // Another conversation with the same first message.
  std::vector<int32_t> other(first.prompt.begin(), first.prompt.begin() + 40);
  for (const int32_t token : some_tokens(30, 3)) other.push_back(token);
  CHECK(ask(engine, greedy(other, 5)).finished.n_cached_tokens == 32);
  const std::vector<SequenceRequest> requests{second};
  CHECK(numbers_of(reused) == numbers_of(answers_alone("qwen35", requests).front()));
}

TEST_CASE("engine over states: an answer that is continued as it is need not be computed again") {
  const auto model = load("qwen3next", 1, 64);
  Engine engine(*model, {.n_slots = 1, .context_tokens = kContext, .prefill_chunk = 64});
  const SequenceRequest first = greedy(some_tokens(50, 1), 200);
  const Answer answer = ask(engine, first);
  std::vector<int32_t> next = first.prompt;
  next.insert(next.end(), answer.tokens.begin(), answer.tokens.end());
  for (const int32_t token : some_tokens(30, 2)) next.push_back(token);
  // Snapshots of the answer come every 64 tokens after the prompt's last one, at 48.
  CHECK(ask(engine, greedy(next, 5)).finished.n_cached_tokens == 240);
}

TEST_CASE("engine over states: neither snapshots nor neighbors nor chunks change an answer") {
  const std::string name =
      GENERATE("qwen35", "qwen35moe", "qwen3next", "nemotron_h_moe", "granitehybrid", "lfm2", "lfm2moe");
  std::mt19937 random(11);
  std::vector<SequenceRequest> requests;
  const std::vector<int32_t> shared = some_tokens(200, 99);
  for (int i = 0; i < 12; ++i) {
    const int n_shared = static_cast<int>(random() % 5) * 40;
    std::vector<int32_t> prompt(shared.begin(), shared.begin() + n_shared);
    for (const int32_t token : some_tokens(5 + static_cast<int>(random() % 60), random()))
      prompt.push_back(token);
    SequenceRequest request = i % 2 == 0 ? greedy(prompt, 30) : sampled(prompt, 30, random());
    request.prefix_ends = {n_shared};
    request.n_top_logprobs = 2;
    requests.push_back(request);
  }
  const std::vector<Answer> expected = answers_alone(name, requests);
  const int chunk = GENERATE(9, 64);
  const auto model = load(name, 4, chunk);
  Engine engine(*model, {.n_slots = 4, .context_tokens = kContext, .prefill_chunk = chunk});
  int n_cached = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (const SequenceRequest& request : requests) streams.push_back(submit(engine, request));
    for (size_t i = 0; i < requests.size(); ++i) {
      const Answer answer = read_all(*streams[i], 1).front();
      n_cached += answer.finished.n_cached_tokens;
      CHECK(numbers_of(answer) == numbers_of(expected[i]));
    }
  }
  CHECK(n_cached > 500);
}

TEST_CASE("engine over states: rejected drafts leave no trace") {
  const std::string name = GENERATE("qwen35", "qwen3next", "nemotron_h", "lfm2", "falcon-h1");
  std::vector<SequenceRequest> requests;
  std::vector<std::vector<int32_t>> texts;
  for (uint64_t i = 0; i < 5; ++i)
    requests.push_back(greedy(some_tokens(20 + 7 * static_cast<int>(i), i), 120));
  const std::vector<Answer> expected = answers_alone(name, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    texts.push_back(requests[i].prompt);
    texts.back().insert(texts.back().end(), expected[i].tokens.begin(), expected[i].tokens.end());
  }
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.whatever_it_costs = true;
  speculation.drafter = std::make_shared<FaultyDrafter>(texts);
  const auto model = load(name, 3, 64);
  Engine engine(*model,
                {.n_slots = 3, .context_tokens = kContext, .prefill_chunk = 64, .speculation = speculation});
  const std::vector<Answer> answers =
      read_all(*submit(engine, GenerationRequest{.sequences = requests}), static_cast<int>(requests.size()));
  for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers_of(answers[i]) == numbers_of(expected[i]));
  const EngineStatus status = engine.status();
  CHECK(status.n_accepted_tokens > 100);
  CHECK(status.n_accepted_tokens < status.n_drafted_tokens);
  // The snapshots that were made between drafts are right too.
  std::vector<int32_t> next = texts[0];
  next.push_back(5);
  const std::vector<SequenceRequest> again{greedy(next, 10)};
  const Answer continued = ask(engine, again[0]);
  CHECK(continued.finished.n_cached_tokens >= 64);
  CHECK(numbers_of(continued) == numbers_of(answers_alone(name, again).front()));
}

TEST_CASE("engine over states: prompts of 200 and 2,000 tokens give the same bits however they are cut") {
  const std::string name = GENERATE(from_range(testing::every_nth(
      testing::kStride, {"qwen35", "qwen35moe", "qwen3next", "nemotron_h", "nemotron_h_moe", "granitehybrid",
                         "falcon-h1", "lfm2", "lfm2moe"})));
  constexpr int kLongContext = 2304, kAnswer = 30;
  const int n = GENERATE(200, testing::kStride == 1 ? 2000 : 300);  // a sanitizer needs minutes for 2,000
  CAPTURE(name, n);
  const SequenceRequest whole_prompt = scored(some_tokens(n, 21), 2);
  const SequenceRequest answered = greedy(whole_prompt.prompt, kAnswer);
  const auto engine_over = [&](ModelRuntime& model, int chunk, const SpeculationOptions& speculation = {}) {
    return std::make_unique<Engine>(model, EngineOptions{.n_slots = 1,
                                                         .context_tokens = kLongContext,
                                                         .prefill_chunk = chunk,
                                                         .speculation = speculation});
  };
  const auto model = load(name, 1, n, kLongContext);
  const std::vector<float> scores = numbers_of(ask(*engine_over(*model, n), whole_prompt));
  const Answer expected = ask(*engine_over(*model, n), answered);
  CHECK(scores.size() > static_cast<size_t>(n));
  // In steps of one token, the prompt is cut at every place.
  for (const int chunk : {1, 61, 512}) {
    CAPTURE(chunk);
    const auto cut = load(name, 1, chunk, kLongContext);
    CHECK(numbers_of(ask(*engine_over(*cut, chunk), whole_prompt)) == scores);
    CHECK(numbers_of(ask(*engine_over(*cut, chunk), answered)) == numbers_of(expected));
  }
  // Continue from a snapshot of a shorter prompt. This engine ends before the next one begins, because an
  // engine also reads its runtime while it waits for requests.
  {
    const auto from_snapshot = engine_over(*model, 100);
    std::vector<int32_t> shorter(answered.prompt.begin(), answered.prompt.end() - n / 4);
    ask(*from_snapshot, greedy(std::move(shorter), 1));
    const Answer reused = ask(*from_snapshot, answered);
    CHECK(reused.finished.n_cached_tokens > n / 2);
    CHECK(numbers_of(reused) == numbers_of(expected));
  }
  // After drafts, some of which are rejected.
  std::vector<int32_t> text = answered.prompt;
  text.insert(text.end(), expected.tokens.begin(), expected.tokens.end());
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.whatever_it_costs = true;
  speculation.drafter = std::make_shared<FaultyDrafter>(std::vector<std::vector<int32_t>>{text});
  const auto drafting = engine_over(*model, 100, speculation);
  CHECK(numbers_of(ask(*drafting, answered)) == numbers_of(expected));
  const EngineStatus status = drafting->status();
  CHECK(status.n_accepted_tokens > 0);
  CHECK(status.n_accepted_tokens < status.n_drafted_tokens);
}

TEST_CASE("engine over states: drafts from the text and from another model change no answer") {
  const std::string name =
      GENERATE("qwen35", "qwen35moe", "qwen3next", "nemotron_h_moe", "granitehybrid", "lfm2", "lfm2moe");
  const bool by_model = GENERATE(false, true);
  CAPTURE(name, by_model);
  std::vector<SequenceRequest> requests;
  for (uint64_t i = 0; i < 6; ++i) {
    const std::vector<int32_t> prompt = some_tokens(18 + 3 * static_cast<int>(i), i);
    requests.push_back(i % 2 == 0 ? greedy(prompt, 60) : sampled(prompt, 60, i));
    requests.back().n_top_logprobs = 2;
  }
  const std::vector<Answer> expected = answers_alone(name, requests);
  // Predictions that are right but for one token in eight.
  for (size_t i = 0; i < requests.size() && !by_model; ++i) {
    std::vector<int32_t> prediction = expected[i].tokens;
    for (size_t at = 5; at < prediction.size(); at += 8) prediction[at] = 7;
    requests[i].prediction = std::make_shared<const std::vector<int32_t>>(std::move(prediction));
  }
  const auto drafter = by_model ? load("qwen3", 3, 64, kDraftContext) : nullptr;
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.whatever_it_costs = true;
  speculation.draft_model = drafter.get();
  speculation.draft_context = kDraftContext;
  const auto model = load(name, 3, 64);
  Engine engine(*model,
                {.n_slots = 3, .context_tokens = kContext, .prefill_chunk = 64, .speculation = speculation});
  for (int round = 0; round < 2; ++round) {  // the second time after cached prefixes
    const std::vector<Answer> answers = read_all(*submit(engine, GenerationRequest{.sequences = requests}),
                                                 static_cast<int>(requests.size()));
    for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers_of(answers[i]) == numbers_of(expected[i]));
  }
  const EngineStatus status = engine.status();
  CHECK(status.n_cached_tokens > 0);
  CHECK(status.n_drafted_tokens > 100);
  CHECK(status.n_accepted_tokens < status.n_drafted_tokens);
  if (!by_model) CHECK(status.n_accepted_tokens > 100);
}

TEST_CASE("engine over states: a model with recurrent layers drafts for no other model") {
  const auto model = load("qwen35", 1, 64), draft = load("qwen35", 1, 64);
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.draft_model = draft.get();
  speculation.draft_context = kContext;
  CHECK_THROWS_WITH(Engine(*model, {.n_slots = 1, .context_tokens = kContext, .speculation = speculation}),
                    ContainsSubstring("recurrent"));
}

}  // namespace hearth::engine_states_test
