// The engine as its users see it, with a model whose answers depend on every token of the history.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>

#include "engine/constraint/thinking_budget.h"
#include "engine/sampling/logprobs.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;

namespace {

GenerationRequest together(std::vector<SequenceRequest> sequences) {
  return {.sequences = std::move(sequences)};
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("engine: a prompt is continued as the model alone would") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  for (const int n : {1, 3, 4, 5, 17, 40}) {
    const std::vector<int32_t> prompt = some_tokens(n, static_cast<uint64_t>(n));
    const Answer answer = ask(engine, greedy(prompt, 10));
    CHECK(answer.tokens == continuation(prompt, 10));
    CHECK(answer.prompt.empty());
    CHECK(answer.events.front().top.empty());
    CHECK(answer.finished.reason == FinishReason::kLength);
    CHECK(answer.finished.n_prompt_tokens == n);
    CHECK(answer.finished.n_generated_tokens == 10);
    CHECK(answer.finished.queue_seconds >= 0);
    CHECK(answer.finished.prefill_seconds > 0);
    CHECK(answer.finished.decode_seconds > 0);
  }
  const EngineStatus status = engine.status();
  CHECK(status.n_running == 0);
  CHECK(status.n_waiting == 0);
  CHECK(status.n_generated_tokens == 60);
  CHECK(status.n_prompt_tokens == 70);
  CHECK(status.mean_service_seconds > 0);
  CHECK_FALSE(status.failed);
}

TEST_CASE("engine: a request past its deadline is not started, or ends where it is") {
  std::atomic<int> n_steps = 0;
  std::chrono::steady_clock::time_point deadline;  // set before the request that uses it
  ScriptedModel model({.before_step = [&](const Batch&) {
    // by the clock: the request's deadline has passed then, whatever the machine does
    if (++n_steps == 6) std::this_thread::sleep_until(deadline);
  }});
  Engine engine(model, {.n_slots = 1, .context_tokens = 1000, .queue_capacity = 4});
  GenerationRequest late = together({greedy(some_tokens(3, 1), 10)});
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const Answer none = read_all(*submit(engine, std::move(late)), 1).front();
  CHECK(none.finished.reason == FinishReason::kTimedOut);
  CHECK(none.tokens.empty());
  CHECK(n_steps == 0);
  GenerationRequest endless = together({greedy(some_tokens(3, 1), 990)});
  endless.deadline = deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  const Answer cut = read_all(*submit(engine, std::move(endless)), 1).front();
  CHECK(cut.finished.reason == FinishReason::kTimedOut);
  CHECK(cut.tokens.size() <= 6);  // fewer if the machine did not reach the sixth step in time
  const std::vector<int32_t> expected = continuation(some_tokens(3, 1), static_cast<int>(cut.tokens.size()));
  CHECK(cut.tokens == expected);
  GenerationRequest in_time = together({greedy(some_tokens(3, 1), 10)});
  in_time.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  const Answer whole = read_all(*submit(engine, std::move(in_time)), 1).front();
  CHECK(whole.finished.reason == FinishReason::kLength);
}

TEST_CASE("engine: its figures describe sequences, steps and KV memory") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  const EngineFigures before = engine.figures();
  CHECK(before.kv_tokens > 0);
  CHECK(before.kv_used_tokens == 0);
  CHECK(before.step_tokens.n() == 0);
  const std::vector<int32_t> prompt = some_tokens(9, 1);
  ask(engine, greedy(prompt, 10));
  ask(engine, greedy(prompt, 1));  // its first eight tokens are in the prefix cache
  ask(engine, scored(prompt, 0));
  ask(engine, greedy(some_tokens(3, 2), 4));
  // Figures are published at the end of a step, which may be after its events.
  EngineFigures now = engine.figures();
  while (now.n_admitted < 4 || now.kv_used_tokens > 0) {
    std::this_thread::yield();
    now = engine.figures();
  }
  CHECK(now.n_admitted == 4);
  CHECK(now.n_prefix_hits == 1);
  CHECK(now.queue_seconds.n() == 4);
  CHECK(now.first_token_seconds.n() == 3);  // without the one that is only scored
  CHECK(now.seconds_per_token.n() == 2);    // those with more than one token
  CHECK(now.n_finished[static_cast<size_t>(FinishReason::kLength)] == 4);
  CHECK(now.decode_step_seconds.n() == 9 + 3);
  CHECK(now.prompt_step_seconds.n() == 4);
  CHECK(now.step_sequences.sum() == 16);
  CHECK(now.step_tokens.sum() == 9 + 1 + 9 + 3 + 12);
  CHECK(now.model_seconds > 0);
  CHECK(now.kv_used_tokens == 0);
  CHECK(now.kv_cached_tokens > 0);
}

TEST_CASE("engine: a batch marks the tokens of prompts, and the logits that only score them") {
  std::vector<int32_t> of_prompt, scores, others, wanted;
  ScriptedModel model({.before_step = [&](const Batch& batch) {
    for (int32_t t = 0; t < batch.n_tokens(); ++t) {
      const bool marked = std::ranges::find(batch.prompt_rows, t) != batch.prompt_rows.end();
      (marked ? of_prompt : others).push_back(batch.positions[static_cast<size_t>(t)]);
    }
    for (size_t row = 0; row < batch.logit_rows.size(); ++row) {
      const int32_t position = batch.positions[static_cast<size_t>(batch.logit_rows[row])];
      const bool marked =
          std::ranges::find(batch.scored_rows, static_cast<int32_t>(row)) != batch.scored_rows.end();
      (marked ? scores : wanted).push_back(position);
    }
  }});
  Engine engine(model, {.n_slots = 2, .context_tokens = 64, .prefill_chunk = 4});
  SequenceRequest request = scored(some_tokens(6, 3), 1);
  request.max_tokens = 4;
  ask(engine, request);
  CHECK(of_prompt == std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  CHECK(others == std::vector<int32_t>{6, 7, 8});
  CHECK(scores == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(wanted == std::vector<int32_t>{5, 6, 7, 8});
  // An embedded text is a prompt, and no token of it is scored.
  of_prompt.clear();
  scores.clear();
  SequenceRequest text = greedy(some_tokens(5, 4), 0);
  text.embedding = Pooling::kMean;
  ask(engine, text);
  CHECK(of_prompt == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(scores.empty());
}

TEST_CASE("engine: work between requests runs once, when the engine is idle, and new requests wait for it") {
  std::atomic<int> n_steps = 0;
  std::promise<void> let_step, let_work;
  std::shared_future<void> may_step = let_step.get_future().share(), may_work = let_work.get_future().share();
  ScriptedModel model({.before_step = [&](const Batch&) {
    ++n_steps;
    may_step.wait();
  }});
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  const std::vector<int32_t> prompt = some_tokens(9, 3);
  const auto first = submit(engine, greedy(prompt, 5));
  while (n_steps == 0) std::this_thread::yield();

  std::atomic<int> n_works = 0, steps_before = 0;
  std::promise<void> began;
  engine.when_idle([&](const std::function<bool()>&) { FAIL("another took its place"); });
  engine.when_idle([&](const std::function<bool()>& go_on) {
    ++n_works;
    CHECK(go_on());
    CHECK(engine.status().n_running == 0);
    steps_before = n_steps.load();
    began.set_value();
    may_work.wait();
  });
  let_step.set_value();
  CHECK(read_all(*first, 1).front().tokens == continuation(prompt, 5));
  began.get_future().wait();
  const auto second = submit(engine, greedy(prompt, 5));
  CHECK(engine.status().n_waiting + engine.status().n_running == 1);
  CHECK(n_steps == steps_before);
  let_work.set_value();
  const Answer answer = read_all(*second, 1).front();
  CHECK(answer.tokens == continuation(prompt, 5));
  CHECK(answer.finished.n_cached_tokens == 0);  // what was computed before is forgotten
  CHECK(ask(engine, greedy(prompt, 5)).finished.n_cached_tokens == 8);
  CHECK(n_works == 1);
}

TEST_CASE("engine: work between requests learns of a stop, and its failure is the engine's") {
  ScriptedModel model({});
  bool went_on = true;
  {
    Engine engine(model, {.n_slots = 1, .context_tokens = 64});
    std::promise<void> began;
    engine.when_idle([&](const std::function<bool()>& go_on) {
      began.set_value();
      while (go_on()) std::this_thread::yield();
      went_on = false;
    });
    began.get_future().wait();
  }
  CHECK_FALSE(went_on);

  Engine engine(model, {.n_slots = 1, .context_tokens = 64});
  engine.when_idle([](const std::function<bool()>&) { throw std::runtime_error("no room for this"); });
  while (!engine.status().failed) std::this_thread::yield();
  CHECK(engine.status().failure == "no room for this");
  CHECK(refusal_of(engine, together({greedy(some_tokens(3, 1), 2)})) == Refusal::kStopping);
}

TEST_CASE("engine: an answer does not depend on chunk, step and slot sizes") {
  const std::vector<int32_t> prompt = some_tokens(53, 1);
  const std::vector<int32_t> expected = continuation(prompt, 20);
  for (const int chunk : {1, 2, 3, 7, 16, 64, 1000}) {
    for (const int max_tokens : {3, 10, 64}) {
      ScriptedModel::Options options;
      options.limits.max_tokens = max_tokens;
      options.limits.max_logit_rows = 3;
      options.limits.block_tokens = 1 + chunk % 5;
      ScriptedModel model(options);
      Engine engine(model, {.n_slots = 3, .context_tokens = 80, .prefill_chunk = chunk});
      CHECK(ask(engine, greedy(prompt, 20)).tokens == expected);
    }
  }
}

TEST_CASE("engine: alone or among seven others, the same request gets the same tokens") {
  const uint64_t round = GENERATE(range(0, 4));
  ScriptedModel model({});
  const SequenceRequest greedy_one = greedy(some_tokens(21, 100 + round), 30);
  const SequenceRequest sampled_one = sampled(some_tokens(33, 200 + round), 30, 9 + round);
  std::vector<int32_t> alone_greedy, alone_sampled;
  {
    Engine engine(model, {.n_slots = 8, .context_tokens = 100, .prefill_chunk = 16});
    alone_greedy = ask(engine, greedy_one).tokens;
    alone_sampled = ask(engine, sampled_one).tokens;
  }
  CHECK(alone_greedy == continuation(greedy_one.prompt, 30));

  Engine engine(model, {.n_slots = 8, .context_tokens = 100, .prefill_chunk = 16});
  std::mt19937_64 random(round);
  std::vector<std::shared_ptr<TokenStream>> others;
  for (int i = 0; i < 7; ++i) {
    // Some share a beginning with one of the two; biases and penalties are random.
    std::vector<int32_t> prompt = some_tokens(1 + static_cast<int>(random() % 50), random());
    if (i % 3 == 0) prompt = joined({greedy_one.prompt.begin(), greedy_one.prompt.begin() + 15}, prompt);
    SequenceRequest other = sampled(prompt, 1 + static_cast<int>(random() % 30), random());
    other.sampling.logit_bias = {{static_cast<int32_t>(random() % 97), 50.0f}};
    other.sampling.frequency_penalty = 2;
    other.sampling.repetition_penalty = 3;
    other.prompt_logprobs = i % 2 == 0;
    other.n_top_logprobs = 3;
    others.push_back(submit(engine, other));
    if (i == 3) {
      const std::vector<Answer> answers = read_all(*submit(engine, together({greedy_one, sampled_one})), 2);
      CHECK(answers[0].tokens == alone_greedy);
      CHECK(answers[1].tokens == alone_sampled);
    }
  }
  CHECK(ask(engine, sampled_one).tokens == alone_sampled);  // also from the prefix cache
  for (const std::shared_ptr<TokenStream>& stream : others) {
    CHECK(read_all(*stream, 1).front().finished.reason == FinishReason::kLength);
  }
}

TEST_CASE("engine: an end token ends the answer and is not emitted") {
  const std::vector<int32_t> prompt = some_tokens(9, 5);
  const std::vector<int32_t> expected = continuation(prompt, 12);
  const int32_t end = expected[7];
  const auto first = std::ranges::find(expected, end);
  ScriptedModel model({});
  Engine engine(model, {.context_tokens = 64});
  SequenceRequest request = greedy(prompt, 12);
  request.end_tokens = {end};
  const Answer answer = ask(engine, request);
  CHECK(answer.tokens == std::vector<int32_t>(expected.begin(), first));
  CHECK(answer.finished.reason == FinishReason::kStop);
  CHECK(answer.finished.n_generated_tokens == static_cast<int>(first - expected.begin()));

  request.end_tokens = {expected[0]};
  const Answer nothing = ask(engine, request);
  CHECK(nothing.tokens.empty());
  CHECK(nothing.finished.reason == FinishReason::kStop);
}

TEST_CASE("engine: a reused prefix gives the same answer, and says how much was reused") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 100});
  const std::vector<int32_t> prompt = some_tokens(30, 6);
  const std::vector<int32_t> expected = continuation(prompt, 15);
  const Answer first = ask(engine, greedy(prompt, 15));
  const Answer second = ask(engine, greedy(prompt, 15));
  CHECK(first.tokens == expected);
  CHECK(second.tokens == expected);
  CHECK(first.finished.n_cached_tokens == 0);
  CHECK(second.finished.n_cached_tokens == 28);
  CHECK(engine.status().n_cached_tokens == 28);

  // The next turn of a conversation also finds the answer's keys and values, except for those of its last
  // token, which were never computed.
  const std::vector<int32_t> turn = joined(joined(prompt, expected), some_tokens(5, 7));
  const Answer third = ask(engine, greedy(turn, 5));
  CHECK(third.finished.n_cached_tokens == 44);
  CHECK(third.tokens == continuation(turn, 5));

  // Another continuation of half the prompt.
  const std::vector<int32_t> fork = joined({prompt.begin(), prompt.begin() + 18}, some_tokens(9, 8));
  const Answer fourth = ask(engine, greedy(fork, 5));
  CHECK(fourth.finished.n_cached_tokens == 16);
  CHECK(fourth.tokens == continuation(fork, 5));
}

TEST_CASE("engine: eviction under pressure changes no answer") {
  ScriptedModel::Options options;
  options.limits.n_blocks = 20;  // enough for two sequences
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 3, .context_tokens = 40, .queue_capacity = 100});
  std::mt19937_64 random(3);
  std::vector<std::vector<int32_t>> prompts;
  for (uint64_t i = 0; i < 6; ++i) prompts.push_back(some_tokens(10 + static_cast<int>(i) * 4, i / 2));
  std::vector<std::pair<std::vector<int32_t>, std::shared_ptr<TokenStream>>> running;
  for (int i = 0; i < 60; ++i) {
    const std::vector<int32_t>& prompt = prompts[random() % prompts.size()];
    running.emplace_back(prompt, submit(engine, greedy(prompt, 8)));
  }
  for (const auto& [prompt, stream] : running) {
    const Answer answer = read_all(*stream, 1).front();
    REQUIRE(answer.tokens == continuation(prompt, 8));
  }
  // Among other requests a prefix may be evicted before it is reused; alone it is found.
  ask(engine, greedy(prompts[5], 8));
  CHECK(ask(engine, greedy(prompts[5], 8)).finished.n_cached_tokens == 28);
}

namespace {

// A pool for one context, and requests without a length limit.
constexpr int kWholePool = 200;

ScriptedModel::Options small_pool() {
  ScriptedModel::Options options;
  options.limits.n_blocks = kWholePool / options.limits.block_tokens;
  return options;
}

SequenceRequest endless(int n_prompt, uint64_t seed) {
  return greedy(some_tokens(n_prompt, seed), kWholePool - n_prompt);
}

// Guesses the right token now and then.
class Guesser : public Drafter {
 public:
  void draft(const Sequence& sequence, std::vector<int32_t>& draft) override {
    draft.clear();
    if (sequence.tokens.size() % 3 == 0) return;
    draft = continuation(sequence.tokens, 1);
    draft.push_back(5);
  }
};

}  // namespace

TEST_CASE("engine: requests that may each need the whole pool run together") {
  std::atomic<int> most = 0;
  ScriptedModel::Options options = small_pool();
  options.before_step = [&](const Batch& batch) {
    most = std::max(most.load(), 1 + *std::ranges::max_element(batch.slots));
  };
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 4, .context_tokens = kWholePool, .promise_tokens = 60});
  SequenceRequest first = endless(20, 1), second = endless(30, 2);
  first.end_tokens = {continuation(first.prompt, 50).back()};
  second.end_tokens = {continuation(second.prompt, 50).back()};
  for (const Answer& answer : read_all(*submit(engine, together({first, second})), 2))
    CHECK(answer.finished.reason == FinishReason::kStop);
  CHECK(most == 2);
  CHECK(engine.status().n_set_back == 0);
}

TEST_CASE("engine: sequences that are set back continue with the same tokens, and each is reported once") {
  const bool drafts = GENERATE(false, true);
  const int chunk = GENERATE(3, 50);
  ScriptedModel model(small_pool());
  EngineOptions how{.n_slots = 4, .context_tokens = kWholePool, .prefill_chunk = chunk, .promise_tokens = 11};
  if (drafts) {
    how.speculation.on = how.speculation.whatever_it_costs = true;
    how.speculation.drafter = std::make_shared<Guesser>();
  }
  Engine engine(model, how);
  std::vector<SequenceRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(endless(10 + 15 * i, static_cast<uint64_t>(i)));
  requests[1].n_top_logprobs = 2;
  requests[2] = sampled(requests[2].prompt, kWholePool - 40, 7);
  requests.push_back(scored(some_tokens(90, 9), 2));
  auto thinking = std::make_shared<ThinkingBudget>();
  std::vector<std::string> pieces;
  for (int i = 0; i < 97; ++i) pieces.emplace_back(1, static_cast<char>('a' + i % 26));
  thinking->trie = std::make_shared<const TokenTrie>(pieces);
  thinking->open = "q";
  thinking->closes = {"zz"};
  thinking->begun = true;
  thinking->n_tokens = 9;
  thinking->ending = {3, 30, 51, 25, 77};
  requests[3].thinking = thinking;
  std::vector<std::vector<float>> among_others;
  int n_prompt = 0;
  for (const Answer& answer :
       read_all(*submit(engine, together(requests)), static_cast<int>(requests.size()))) {
    CHECK(answer.finished.reason == FinishReason::kLength);
    CHECK(answer.finished.n_cached_tokens == 0);
    n_prompt += answer.finished.n_prompt_tokens;
    among_others.push_back(numbers_of(answer));
  }
  const EngineStatus status = engine.status();
  CHECK(status.n_set_back > 0);
  CHECK(status.n_running + status.n_waiting == 0);
  CHECK(status.n_prompt_tokens == static_cast<uint64_t>(n_prompt));  // recomputed tokens count once
  for (size_t i = 0; i < requests.size(); ++i) {
    INFO(i);
    CHECK(numbers_of(ask(engine, requests[i])) == among_others[i]);
  }
  CHECK(engine.status().n_set_back == status.n_set_back);
}

TEST_CASE("engine: a sequence that is set back can be cancelled, and ends when the engine stops") {
  const bool stops = GENERATE(false, true);
  std::atomic<const Engine*> running = nullptr;
  std::promise<void> let_go;
  std::shared_future<void> may_go = let_go.get_future().share();
  ScriptedModel::Options options = small_pool();
  options.before_step = [&](const Batch&) {
    const Engine* const engine = running;
    if (engine != nullptr && engine->status().n_set_back > 0) may_go.wait();
  };
  ScriptedModel model(options);
  std::shared_ptr<TokenStream> stream;
  const std::vector<SequenceRequest> requests = {endless(20, 1), endless(21, 2), endless(22, 3)};
  {
    Engine engine(model, {.n_slots = 3, .context_tokens = kWholePool, .promise_tokens = 20});
    running = &engine;
    stream = submit(engine, together(requests));
    while (engine.status().n_set_back == 0) std::this_thread::yield();
    CHECK(engine.status().n_running == 2);
    CHECK(engine.status().n_waiting == 1);
    if (!stops) stream->cancel_sequence(2);
    let_go.set_value();
    if (!stops) CHECK(engine.drain(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  }
  const std::vector<Answer> answers = read_all(*stream, 3);
  // An engine that stops may have finished all requests before the stop arrives.
  if (!stops) CHECK(answers[2].finished.reason == FinishReason::kCancelled);
  for (const Answer& answer : answers)
    CHECK((answer.finished.reason == FinishReason::kCancelled ||
           answer.finished.reason == FinishReason::kLength));
  CHECK(answers[2].finished.n_generated_tokens > 0);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int32_t>& tokens = answers[i].tokens;
    CHECK(tokens == continuation(requests[i].prompt, static_cast<int>(tokens.size())));
  }
}

TEST_CASE("engine: n sequences of one prompt compute the prompt once and differ by their seeds") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 4, .context_tokens = 100});
  const std::vector<int32_t> prompt = some_tokens(50, 12);
  std::vector<SequenceRequest> sequences;
  for (uint64_t seed = 0; seed < 10; ++seed) sequences.push_back(sampled(prompt, 12, seed));
  const std::vector<Answer> answers = read_all(*submit(engine, together(sequences)), 10);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(answers[i].finished.reason == FinishReason::kLength);
    CHECK(answers[i].finished.n_cached_tokens == (i == 0 ? 0 : 48));
    for (size_t j = 0; j < i; ++j) CHECK(answers[i].tokens != answers[j].tokens);
  }
  for (size_t i = 0; i < 10; ++i) CHECK(ask(engine, sequences[i]).tokens == answers[i].tokens);
}

TEST_CASE("engine: log-probabilities are those of the raw distribution, whatever the sampling parameters") {
  ScriptedModel model({});
  Engine engine(model, {.context_tokens = 64});
  SequenceRequest request = greedy(some_tokens(6, 2), 5);
  request.sampling.logit_bias = {{13, 100.0f}};
  request.n_top_logprobs = 4;
  std::vector<int32_t> history = request.prompt;
  const Answer answer = ask(engine, request);
  std::vector<float> logits(97);
  for (const TokenEvent& event : answer.events) {
    CHECK(event.token == 13);
    ScriptedModel::hashed()(history, logits);
    TokenEvent expected{.token = 13, .logprob = 0.0f, .top = {}};
    std::vector<int32_t> scratch;
    REQUIRE(add_logprobs(logits, 4, expected, scratch));
    CHECK(event.logprob == expected.logprob);
    REQUIRE(event.top.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(event.top[i].token == expected.top[i].token);
    history.push_back(13);
  }
  request.n_top_logprobs = 0;
  CHECK(ask(engine, request).events[0].logprob == answer.events[0].logprob);
}

TEST_CASE("engine: a prompt is scored token by token, in pieces that fit, from the cache or not") {
  ScriptedModel::Options options;
  options.limits.max_logit_rows = 5;
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  const std::vector<int32_t> prompt = some_tokens(37, 4);
  ask(engine, greedy(prompt, 1));  // its blocks are in the cache now, but every logit is needed
  for (const int max_tokens : {0, 3}) {
    SequenceRequest request = scored(prompt, 2);
    request.max_tokens = max_tokens;
    const Answer answer = ask(engine, request);
    CHECK(answer.finished.reason == FinishReason::kLength);
    CHECK(answer.finished.n_cached_tokens == 0);
    CHECK(answer.tokens == continuation(prompt, max_tokens));
    REQUIRE(answer.prompt.size() == prompt.size() - 1);
    std::vector<float> logits(97);
    for (size_t i = 1; i < prompt.size(); ++i) {
      ScriptedModel::hashed()(std::span(prompt).first(i), logits);
      const TokenEvent& event = answer.prompt[i - 1];
      REQUIRE(event.token == prompt[i]);
      REQUIRE(event.logprob == Approx(logits[static_cast<size_t>(prompt[i])] - log_sum_exp(logits)));
      REQUIRE(event.top.size() == 2);
      REQUIRE(event.top[0].token == std::ranges::max_element(logits) - logits.begin());
    }
  }
  SequenceRequest one = scored({5}, 0);
  const Answer nothing = ask(engine, one);
  CHECK(nothing.prompt.empty());
  CHECK(nothing.finished.reason == FinishReason::kLength);
}

TEST_CASE("engine: with max_tokens 0 and no scoring the prompt is computed and the answer ends") {
  ScriptedModel model({});
  Engine engine(model, {.context_tokens = 64});
  const std::vector<int32_t> prompt = some_tokens(40, 4);
  const Answer answer = ask(engine, greedy(prompt, 0));
  CHECK(answer.finished.reason == FinishReason::kLength);
  CHECK(answer.tokens.empty());
  CHECK(ask(engine, greedy(prompt, 1)).finished.n_cached_tokens == 36);
}

TEST_CASE("engine: a request that exceeds the context is refused, one that just fits is not") {
  ScriptedModel model({});
  Engine engine(model, {.context_tokens = 30});
  CHECK(refusal_of(engine, together({greedy(some_tokens(21, 1), 10)})) == Refusal::kContextExceeded);
  CHECK(refusal_of(engine, together({greedy({1}, 2), greedy(some_tokens(31, 1), 0)})) ==
        Refusal::kContextExceeded);
  CHECK(refusal_of(engine, together({greedy({1}, std::numeric_limits<int>::max())})) ==
        Refusal::kContextExceeded);
  CHECK(ask(engine, greedy(some_tokens(20, 1), 10)).tokens.size() == 10);
  CHECK(engine.status().n_steps > 0);
}

TEST_CASE("engine: a request that breaks the contract throws in the submitting thread") {
  ScriptedModel model({});
  Engine engine(model, {.context_tokens = 30});
  const auto refuses = [&](const SequenceRequest& sequence, const std::string& why) {
    CHECK_THROWS_AS(engine.submit(together({sequence})), std::invalid_argument);
    try {
      engine.submit(together({sequence}));
    } catch (const std::invalid_argument& error) {
      CHECK_THAT(error.what(), ContainsSubstring(why));
    }
  };
  CHECK_THROWS_AS(engine.submit({}), std::invalid_argument);
  refuses(greedy({}, 1), "at least one token");
  refuses(greedy({96, 97}, 1), "token 97");
  refuses(greedy({-1}, 1), "token -1");
  refuses(greedy({1}, -1), "max_tokens");
  SequenceRequest bad = greedy({1}, 1);
  bad.sampling.temperature = std::nanf("");
  refuses(bad, "temperature");
  bad = greedy({1}, 1);
  bad.sampling.top_p = 0;
  refuses(bad, "top_p");
  bad = greedy({1}, 1);
  bad.sampling.logit_bias = {{97, 1.0f}};
  refuses(bad, "logit_bias");
  CHECK(ask(engine, greedy({1}, 1)).tokens.size() == 1);
}

TEST_CASE("engine: options that the model cannot serve are refused with the numbers") {
  ScriptedModel model({});
  const auto refuses = [&](const EngineOptions& options, const std::string& why) {
    try {
      Engine engine(model, options);
      FAIL("accepted");
    } catch (const std::invalid_argument& error) {
      CHECK_THAT(error.what(), ContainsSubstring(why));
    }
  };
  refuses({.n_slots = 0}, "slots");
  refuses({.n_slots = 33}, "33 slots");
  refuses({.context_tokens = 0}, "context");
  refuses({.context_tokens = 1025}, "256 blocks of 4");
  refuses({.context_tokens = 64, .queue_capacity = -1}, "queue");
  refuses({.context_tokens = 64, .prefill_chunk = 0}, "chunk");
}

TEST_CASE("engine: logits that are not numbers fail their request only, and leave nothing in the cache") {
  ScriptedModel::Options options;
  options.script = [](std::span<const int32_t> history, std::span<float> logits) {
    ScriptedModel::hashed()(history, logits);
    if (history.front() == 50 && history.size() >= 20) logits[3] = std::nanf("");
  };
  ScriptedModel model(options);
  Engine engine(model, {.context_tokens = 64});
  const std::vector<int32_t> good = joined({51}, some_tokens(9, 1));
  const std::vector<int32_t> bad = joined({50}, some_tokens(9, 1));
  const auto other = submit(engine, greedy(good, 40));
  for (int i = 0; i < 2; ++i) {
    const Answer answer = ask(engine, greedy(bad, 30));
    CHECK(answer.finished.reason == FinishReason::kFailed);
    CHECK(answer.tokens.size() == 10);
    CHECK(answer.finished.n_cached_tokens == 0);
    CHECK_THAT(answer.finished.error, ContainsSubstring("NaN"));
  }
  const Answer scoring = ask(engine, scored(joined(bad, some_tokens(20, 2)), 0));
  CHECK(scoring.finished.reason == FinishReason::kFailed);
  CHECK_THAT(scoring.finished.error, ContainsSubstring("NaN"));
  CHECK(read_all(*other, 1).front().tokens == continuation(good, 40));
  CHECK_FALSE(engine.status().failed);
}
