// The engine with several threads: cancellation, full queue, draining, failure, stress. Steps are held at a
// gate where the order matters, so that no test depends on the machine's speed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "engine/engine.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// Lets the model take as many steps as the test allows; the test can wait until the model has reached the
// gate.
class Gate {
 public:
  void pass(const Batch& batch) {
    std::unique_lock lock(mutex_);
    ++n_arrived_;
    last_tokens_ = batch.n_tokens();
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_ || n_passed_ < n_allowed_; });
    ++n_passed_;
  }
  void allow(int n) {
    std::lock_guard lock(mutex_);
    n_allowed_ += n;
    changed_.notify_all();
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Waits until the model is about to take its n-th step; returns the number of tokens in its batch.
  int await_arrival(int n) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 60s, [&] { return n_arrived_ >= n; }))
      throw std::runtime_error("no step came");
    return last_tokens_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_arrived_ = 0, n_passed_ = 0, n_allowed_ = 0, last_tokens_ = 0;
  bool open_ = false;
};

ScriptedModel::Options gated(Gate& gate) {
  ScriptedModel::Options options;
  options.before_step = [&gate](const Batch& batch) { gate.pass(batch); };
  return options;
}

FinishReason reason_of(TokenStream& stream) { return read_all(stream, 1).front().finished.reason; }

}  // namespace

TEST_CASE("engine: a request cancelled in prefill ends before the next step and frees its slot and blocks") {
  Gate gate;
  ScriptedModel model(gated(gate));
  Engine engine(model, {.n_slots = 1, .context_tokens = 1000, .queue_capacity = 0, .prefill_chunk = 10});
  const auto stream = submit(engine, greedy(some_tokens(900, 1), 10));
  gate.await_arrival(1);
  gate.allow(2);
  gate.await_arrival(3);
  CHECK(engine.status().n_running == 1);
  stream->cancel();
  gate.allow(1);  // the step under way; 87 more would be needed
  const Answer answer = read_all(*stream, 1).front();
  CHECK(answer.finished.reason == FinishReason::kCancelled);
  CHECK(answer.finished.n_generated_tokens == 0);
  CHECK(engine.status().n_steps == 3);
  CHECK(engine.status().n_prompt_tokens == 30);
  CHECK(engine.status().n_running == 0);
  gate.open();
  CHECK(ask(engine, greedy(some_tokens(900, 2), 10)).tokens == continuation(some_tokens(900, 2), 10));
}

TEST_CASE("engine: one sequence of several is cancelled while decoding, the others go on") {
  Gate gate;
  ScriptedModel model(gated(gate));
  Engine engine(model, {.n_slots = 3, .context_tokens = 100});
  GenerationRequest request;
  for (uint64_t i = 0; i < 3; ++i) request.sequences.push_back(greedy(some_tokens(5, i), 20));
  const auto stream = submit(engine, request);
  gate.allow(5);
  gate.await_arrival(6);
  stream->cancel_sequence(1);
  gate.allow(1);
  CHECK(gate.await_arrival(7) == 2);  // two tokens in the batch, where there were three
  gate.open();
  const std::vector<Answer> answers = read_all(*stream, 3);
  CHECK(answers[1].finished.reason == FinishReason::kCancelled);
  CHECK(answers[1].tokens == continuation(some_tokens(5, 1), 6));
  for (const size_t i : {0u, 2u}) {
    CHECK(answers[i].finished.reason == FinishReason::kLength);
    CHECK(answers[i].tokens == continuation(some_tokens(5, i), 20));
  }
}

TEST_CASE("engine: waiting sequences are cancelled without ever having had a slot") {
  Gate gate;
  ScriptedModel model(gated(gate));
  Engine engine(model, {.n_slots = 1, .context_tokens = 100, .queue_capacity = 2});
  const auto running = submit(engine, greedy({1}, 50));
  gate.await_arrival(1);
  GenerationRequest two;
  two.sequences = {greedy({2}, 5), greedy({3}, 5)};
  const auto waiting = submit(engine, two);
  const auto other = submit(engine, greedy({4}, 5));
  CHECK(engine.status().n_waiting == 2);
  CHECK(refusal_of(engine, two) == Refusal::kQueueFull);
  waiting->cancel();
  gate.allow(1);
  for (const Answer& answer : read_all(*waiting, 2)) {
    CHECK(answer.finished.reason == FinishReason::kCancelled);
    CHECK(answer.finished.n_prompt_tokens == 1);
    CHECK(answer.finished.prefill_seconds == 0);
  }
  CHECK(engine.status().n_waiting == 1);
  CHECK(engine.status().n_running == 1);
  gate.open();
  CHECK(reason_of(*running) == FinishReason::kLength);
  CHECK(read_all(*other, 1).front().tokens == continuation({4}, 5));
}

TEST_CASE("engine: a full queue refuses at once; a client's place is free once it has its answer") {
  Gate gate;
  ScriptedModel model(gated(gate));
  Engine engine(model, {.n_slots = 2, .context_tokens = 100, .queue_capacity = 0});
  const auto first = submit(engine, greedy({1}, 3));
  const auto second = submit(engine, greedy({2}, 30));
  CHECK(refusal_of(engine, {.sequences = {greedy({3}, 1)}}) == Refusal::kQueueFull);
  gate.open();
  read_all(*first, 1);
  for (int i = 0; i < 50; ++i) CHECK(ask(engine, greedy({3, i}, 2)).finished.reason == FinishReason::kLength);
  read_all(*second, 1);
}

TEST_CASE("engine: drained with a late deadline, it completes everything it has accepted") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 100});
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 10; ++i) streams.push_back(submit(engine, greedy({i}, 10)));
  CHECK(engine.drain(Clock::now() + 60s));
  CHECK(refusal_of(engine, {.sequences = {greedy({1}, 1)}}) == Refusal::kStopping);
  for (int i = 0; i < 10; ++i) {
    CHECK(read_all(*streams[static_cast<size_t>(i)], 1).front().tokens == continuation({i}, 10));
  }
  CHECK(engine.drain(Clock::now()));  // nothing left to cut off
}

TEST_CASE("engine: past its deadline, draining cancels what still runs or waits") {
  ScriptedModel::Options options;
  options.limits.n_blocks = 25000;
  options.script = [](std::span<const int32_t>, std::span<float> logits) { std::ranges::fill(logits, 1.0f); };
  // by the clock: the answer takes at least a minute and a half, which no test waits for
  options.before_step = [](const Batch&) { std::this_thread::sleep_for(1ms); };
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 1, .context_tokens = 100000});
  // a minute and a half, if it were allowed to finish
  const auto running = submit(engine, greedy({1}, 99000));
  const auto waiting = submit(engine, greedy({2}, 50));
  REQUIRE(running->pop_for(60s));
  CHECK_FALSE(engine.drain(Clock::now()));
  CHECK(engine.status().n_running == 0);
  CHECK(engine.status().n_waiting == 0);
  CHECK(reason_of(*running) == FinishReason::kCancelled);
  CHECK(reason_of(*waiting) == FinishReason::kCancelled);
  CHECK(refusal_of(engine, {.sequences = {greedy({1}, 1)}}) == Refusal::kStopping);
}

TEST_CASE("engine: destroyed while it works, it ends every sequence") {
  std::vector<std::shared_ptr<TokenStream>> streams;
  ScriptedModel model({});
  {
    Engine engine(model, {.n_slots = 2, .context_tokens = 1000});
    for (int i = 0; i < 20; ++i) streams.push_back(submit(engine, greedy({i}, 900)));
  }
  for (const auto& stream : streams) {
    const FinishReason reason = reason_of(*stream);
    CHECK((reason == FinishReason::kCancelled || reason == FinishReason::kLength));
  }
}

TEST_CASE("engine: a forward pass that throws fails all requests with a sentence, and new ones are refused") {
  Gate gate;
  ScriptedModel::Options options = gated(gate);
  const int what = GENERATE(0, 1, 2);
  const std::string said = what == 0   ? "the device is gone"
                           : what == 1 ? "an unknown exception"
                                       : "there is not enough memory";
  std::atomic<int> n_steps{0};
  options.before_step = [&](const Batch& batch) {
    gate.pass(batch);
    if (++n_steps < 5) return;
    if (what == 0) throw std::runtime_error("the device is gone");
    if (what == 1) throw 42;
    throw std::bad_alloc();
  };
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 2, .context_tokens = 100});
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(submit(engine, greedy({i}, 50)));
  gate.open();
  for (const auto& stream : streams) {
    const FinishedEvent finished = read_all(*stream, 1).front().finished;
    CHECK(finished.reason == FinishReason::kFailed);
    CHECK_THAT(finished.error, ContainsSubstring(said));
  }
  CHECK(engine.status().failed);
  CHECK(engine.status().failure == said);
  CHECK(engine.status().n_running == 0);
  CHECK(refusal_of(engine, {.sequences = {greedy({1}, 1)}}) == Refusal::kStopping);
  CHECK(engine.drain(Clock::now() + 60s));
}

TEST_CASE("engine: too few logits from the model fail the request, without a read past their end") {
  class Stingy : public ForwardModel {
   public:
    StepLimits limits() const override {
      return {.max_tokens = 8, .max_logit_rows = 8, .n_vocab = 10, .block_tokens = 4, .n_blocks = 8};
    }
    StepOutput forward(const Batch&) override { return {.logits = logits_, .hidden = {}}; }

   private:
    std::vector<float> logits_ = std::vector<float>(9);
  };
  Stingy model;
  Engine engine(model, {.n_slots = 1, .context_tokens = 16});
  CHECK_THAT(ask(engine, greedy({1}, 1)).finished.error, ContainsSubstring("9 logits, expected 10"));
}

TEST_CASE("engine: its heartbeat goes on in every step and when idle") {
  Gate gate;
  ScriptedModel model(gated(gate));
  Engine engine(model, {.n_slots = 1, .context_tokens = 100});
  const Clock::time_point start = engine.status().heartbeat;
  CHECK(start.time_since_epoch().count() > 0);
  const auto beats_after = [&](Clock::time_point before) {
    const Clock::time_point give_up = Clock::now() + 60s;
    while (engine.status().heartbeat <= before && Clock::now() < give_up) std::this_thread::sleep_for(1ms);
    return engine.status().heartbeat > before;
  };
  CHECK(beats_after(start));
  CHECK(beats_after(engine.status().heartbeat));
  const auto stream = submit(engine, greedy({1}, 5));
  gate.await_arrival(1);
  const Clock::time_point stuck = engine.status().heartbeat;  // a step that hangs is visible from outside
  std::this_thread::sleep_for(5ms);  // by the clock: time for a heartbeat that must not come
  CHECK(engine.status().heartbeat == stuck);
  gate.allow(1);
  gate.await_arrival(2);
  CHECK(engine.status().heartbeat > stuck);
  gate.open();
  read_all(*stream, 1);
}

TEST_CASE("engine: with many threads asking, canceling and leaving, every answer is right and none is lost") {
  ScriptedModel::Options options;
  options.limits.n_blocks =
      60;  // less than slots x context: reservations fail now and then, and eviction is constant
  ScriptedModel model(options);
  Engine engine(model, {.n_slots = 5, .context_tokens = 80, .queue_capacity = 6, .prefill_chunk = 8});
  constexpr int kThreads = 6, kRequests = 40;
  std::atomic<int> n_right{0}, n_wrong{0}, n_full{0}, n_cancelled{0};
  const auto client = [&](uint64_t thread) {
    std::mt19937_64 random(thread);
    for (int i = 0; i < kRequests;) {
      const std::vector<int32_t> prompt = some_tokens(1 + static_cast<int>(random() % 50), random() % 4);
      const int n = 1 + static_cast<int>(random() % 3);
      const int max_tokens = static_cast<int>(random() % 20);
      GenerationRequest request;
      for (int j = 0; j < n; ++j) request.sequences.push_back(greedy(prompt, max_tokens));
      if (random() % 4 == 0) request.sequences[0].prompt_logprobs = true;
      auto result = engine.submit(std::move(request));
      if (result.index() == 1) {
        ++n_full;
        std::this_thread::yield();
        continue;
      }
      ++i;
      TokenStream& stream = *std::get<0>(result);
      const uint64_t mood = random() % 4;
      if (mood == 0) stream.cancel();
      if (mood == 1) stream.cancel_sequence(static_cast<int>(random() % static_cast<uint64_t>(n)));
      const std::vector<int32_t> expected = continuation(prompt, max_tokens);
      for (const Answer& answer : read_all(stream, n)) {
        const bool cut = answer.finished.reason == FinishReason::kCancelled;
        const bool whole = answer.finished.reason == FinishReason::kLength && answer.tokens == expected;
        const bool part = cut && mood <= 1 && answer.tokens.size() <= expected.size() &&
                          std::equal(answer.tokens.begin(), answer.tokens.end(), expected.begin());
        ++(whole ? n_right : part ? n_cancelled : n_wrong);
      }
      engine.status();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back(client, t);
  }
  CHECK(n_wrong == 0);
  CHECK(n_right > 0);
  CHECK(n_cancelled > 0);
  CHECK_FALSE(engine.status().failed);
  CHECK(engine.status().failure.empty());
  CHECK(engine.status().n_running == 0);
  CHECK(engine.status().n_waiting == 0);
}
