// The engine with a mixture whose experts are recorded: whatever else is in the steps, the trace has each
// token of a sequence once and in order, with the experts that it chooses when the sequence is alone.
#include <filesystem>
#include <thread>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"

namespace hearth::engine_experts_test {
namespace {

constexpr int kContext = 64;  // the context that the model was made for

LoadOptions options_of(int n_slots, int chunk, int n_kv_contexts = 0) {
  LoadOptions options;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch/qwen3moe.gguf";
  options.n_threads = 1;
  options.n_slots = n_slots;
  options.n_kv_contexts = n_kv_contexts;
  options.prefill_chunk = chunk;
  options.context_tokens = kContext;
  return options;
}

std::unique_ptr<ModelRuntime> load(const LoadOptions& options) {
  std::unique_ptr<ModelRuntime> model = ModelRuntime::load(options);
  model->observation().record_experts(10'000);
  return model;
}

/// The experts [tokens, layers, n_used] of a sequence's tokens.
struct TracedSequence {
  std::vector<uint16_t> prompt, generated;
  bool operator==(const TracedSequence&) const = default;
};

/// The sequences that were recorded. Also checks that none has more than a prompt's run and another one.
std::vector<TracedSequence> traced(ModelRuntime& model) {
  const ModelIdentity identity = identify(model.facts().file, model.facts().spec);
  ExpertTraceWriter writer = model.observation().trace_writer(identity, 10'000);
  CHECK(model.observation().take_experts(writer));
  const ExpertTrace& trace = writer.trace();
  std::vector<TracedSequence> sequences;
  auto at = trace.experts.begin();
  for (const TraceRun& run : trace.runs) {
    if (run.begins_sequence) sequences.emplace_back();
    TracedSequence& sequence = sequences.back();
    const bool in_prompt = run.text == TraceText::kPrompt;
    CHECK(sequence.generated.empty());
    CHECK((!in_prompt || sequence.prompt.empty()));
    const auto end = at + static_cast<ptrdiff_t>(run.n_tokens * trace.token_experts());
    (in_prompt ? sequence.prompt : sequence.generated).assign(at, end);
    at = end;
  }
  return sequences;
}

size_t experts_per_token(const ModelRuntime& model) {
  return static_cast<size_t>(model.facts().spec.n_layers) *
         static_cast<size_t>(model.facts().spec.mixture.n_used);
}

struct Alone {
  std::vector<Answer> answers;
  std::vector<TracedSequence> traced;
};

/// Each request in an engine of its own.
Alone alone(const std::vector<SequenceRequest>& requests) {
  Alone found;
  for (const SequenceRequest& request : requests) {
    const auto model = load(options_of(1, 128));
    {
      Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});
      found.answers.push_back(ask(engine, request));
    }
    const std::vector<TracedSequence> sequences = traced(*model);
    REQUIRE(sequences.size() == 1);
    const size_t per_token = experts_per_token(*model);
    CHECK(sequences[0].prompt.size() == request.prompt.size() * per_token);
    // No step computes the last token.
    CHECK(sequences[0].generated.size() == (found.answers.back().tokens.size() - 1) * per_token);
    found.traced.push_back(sequences[0]);
  }
  return found;
}

/// Drafts an answer's next four tokens, every third of them wrong.
class HalfRight : public Drafter {
 public:
  explicit HalfRight(std::vector<std::vector<int32_t>> texts) : texts_(std::move(texts)) {}
  void draft(const Sequence& sequence, std::vector<int32_t>& draft) override {
    draft.clear();
    const size_t n = sequence.tokens.size();
    for (const std::vector<int32_t>& text : texts_) {
      if (text.size() < n || !std::ranges::equal(std::span(text).first(n), sequence.tokens)) continue;
      for (size_t i = n; i < std::min(text.size(), n + 4); ++i)
        draft.push_back(i % 3 == 0 ? (text[i] + 1) % 97 : text[i]);
    }
  }

 private:
  std::vector<std::vector<int32_t>> texts_;
};

std::vector<int32_t> joined(std::vector<int32_t> tokens, const std::vector<int32_t>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

SpeculationOptions half_right(const std::vector<SequenceRequest>& requests, const Alone& expected) {
  std::vector<std::vector<int32_t>> texts;
  for (size_t i = 0; i < requests.size(); ++i)
    texts.push_back(joined(requests[i].prompt, expected.answers[i].tokens));
  return {.on = true, .drafter = std::make_shared<HalfRight>(std::move(texts)), .whatever_it_costs = true};
}

}  // namespace

TEST_CASE("experts of served tokens: sequences in common steps, with and without drafts") {
  const std::vector<SequenceRequest> requests = {greedy(some_tokens(30, 1), 24),
                                                 sampled(some_tokens(17, 2), 30, 7),
                                                 greedy(some_tokens(9, 3), 1), greedy(some_tokens(5, 4), 9)};
  const Alone expected = alone(requests);
  const bool drafts = GENERATE(false, true);
  const auto model = load(options_of(3, 7));
  {
    EngineOptions how{.n_slots = 3, .context_tokens = kContext, .prefill_chunk = 7};
    if (drafts) how.speculation = half_right(requests, expected);
    Engine engine(*model, how);
    read_all(*submit(engine, GenerationRequest{.sequences = requests}), static_cast<int>(requests.size()));
    const EngineStatus status = engine.status();
    CHECK((status.n_accepted_tokens > 0) == drafts);
    CHECK((status.n_drafted_tokens > status.n_accepted_tokens) == drafts);
  }
  CHECK(traced(*model) == expected.traced);
}

TEST_CASE("experts of served tokens: a sequence that is set back has each token once") {
  std::vector<SequenceRequest> requests;
  for (int i = 0; i < 5; ++i)
    requests.push_back(greedy(some_tokens(5 + 2 * i, static_cast<uint64_t>(i)), kContext - 5 - 2 * i));
  const Alone expected = alone(requests);
  const bool drafts = GENERATE(false, true);
  const auto model = load(options_of(3, 7, 1));
  {
    EngineOptions how{.n_slots = 3, .context_tokens = kContext, .prefill_chunk = 7, .promise_tokens = 4};
    if (drafts) how.speculation = half_right(requests, expected);
    Engine engine(*model, how);
    read_all(*submit(engine, GenerationRequest{.sequences = requests}), static_cast<int>(requests.size()));
    CHECK(engine.status().n_set_back > 0);
  }
  CHECK(traced(*model) == expected.traced);
}

TEST_CASE("experts of served tokens: of a prompt in the prefix cache only the computed tokens are recorded") {
  const std::vector<int32_t> prompt = some_tokens(32, 1);
  const SequenceRequest first = greedy(prompt, 8);
  const SequenceRequest second = greedy(joined(prompt, some_tokens(9, 2)), 8);
  const Alone expected = alone({first, second});
  const auto model = load(options_of(1, 128));
  int n_cached = 0;
  {
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});
    ask(engine, first);
    n_cached = ask(engine, second).finished.n_cached_tokens;
  }
  REQUIRE(n_cached == 32);  // the second sequence begins where the first one's prompt has ended
  const std::vector<TracedSequence> sequences = traced(*model);
  REQUIRE(sequences.size() == 2);
  CHECK(sequences[0] == expected.traced[0]);
  CHECK(sequences[1].generated == expected.traced[1].generated);
  const std::vector<uint16_t>& whole = expected.traced[1].prompt;
  CHECK(sequences[1].prompt ==
        std::vector(whole.begin() + static_cast<ptrdiff_t>(32 * experts_per_token(*model)), whole.end()));
}

TEST_CASE("experts of served tokens: a cancelled sequence has the tokens that were computed") {
  const std::vector<SequenceRequest> requests = {greedy(some_tokens(10, 1), 50),
                                                 greedy(some_tokens(12, 2), 8)};
  const Alone expected = alone(requests);
  const auto model = load(options_of(1, 128));
  size_t n_generated = 0;
  {
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});
    const auto stream = submit(engine, requests[0]);
    REQUIRE(stream->pop_for(std::chrono::seconds(60)));
    stream->cancel();
    n_generated = 1 + read_all(*stream, 1).front().tokens.size();
    ask(engine, requests[1]);
  }
  const std::vector<TracedSequence> sequences = traced(*model);
  REQUIRE(sequences.size() == 2);
  CHECK(sequences[1] == expected.traced[1]);
  CHECK(sequences[0].prompt == expected.traced[0].prompt);
  const std::vector<uint16_t>& generated = sequences[0].generated;
  CHECK(generated.size() == (n_generated - 1) * experts_per_token(*model));
  CHECK(std::ranges::equal(generated, std::span(expected.traced[0].generated).first(generated.size())));
}

TEST_CASE("experts of served tokens: they are recorded also after the model was placed again") {
  const std::vector<SequenceRequest> requests = {greedy(some_tokens(10, 1), 9),
                                                 greedy(some_tokens(12, 2), 8)};
  const Alone expected = alone(requests);
  const LoadOptions options = options_of(1, 128);
  const auto model = load(options);
  {
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});
    ask(engine, requests[0]);
    std::atomic<bool> placed{false};
    engine.when_idle([&](const std::function<bool()>&) {
      model->place_again(options);
      placed = true;
    });
    while (!placed) std::this_thread::yield();
    ask(engine, requests[1]);
  }
  CHECK(traced(*model) == expected.traced);
}

}  // namespace hearth::engine_experts_test
