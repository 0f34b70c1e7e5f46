// The engine with a model whose own layers predict later tokens, or with an assistant: drafts change no bit
// of an answer, and many of the layers' drafts are right.
#include <filesystem>
#include <memory>
#include <random>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"

namespace hearth::engine_nextn_test {
namespace {

constexpr int kContext = 512;

struct How {
  int n_slots = 3, chunk = 64, n_contexts = 0;
  bool nextn = true;
  int context = kContext;
};

std::unique_ptr<ModelRuntime> load(const std::string& name, const How& how) {
  LoadOptions options;
  options.path = std::filesystem::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
  options.n_threads = 2;
  options.n_slots = how.n_slots;
  options.prefill_chunk = how.chunk;
  options.context_tokens = how.context;
  options.n_kv_contexts = how.n_contexts;
  options.nextn = how.nextn && name != "gemma4";
  if (how.nextn && name == "gemma4") {
    const auto path = options.path.parent_path() / "gemma4-assistant.gguf";
    options.assistant = std::make_shared<const ModelFile>(ModelFile::open(path));
  }
  return ModelRuntime::load(options);
}

SpeculationOptions always() {
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.max_draft = 3;
  speculation.whatever_it_costs = true;
  return speculation;
}

std::vector<Answer> answers_of(Engine& engine, const std::vector<SequenceRequest>& requests) {
  return read_all(*submit(engine, GenerationRequest{.sequences = requests}),
                  static_cast<int>(requests.size()));
}

std::vector<Answer> answers_alone(const std::string& name, const std::vector<SequenceRequest>& requests,
                                  int context = kContext) {
  const auto model = load(name, {.n_slots = 1, .nextn = false, .context = context});
  std::vector<Answer> answers;
  for (const SequenceRequest& request : requests) {
    Engine engine(*model, {.n_slots = 1, .context_tokens = context});  // a new prefix cache
    answers.push_back(ask(engine, request));
  }
  return answers;
}

std::vector<SequenceRequest> mixed_requests(int n, int n_tokens) {
  std::mt19937 random(5);
  std::vector<SequenceRequest> requests;
  const std::vector<int32_t> shared = some_tokens(200, 99);
  for (int i = 0; i < n; ++i) {
    const int n_shared = static_cast<int>(random() % 4) * 40;
    std::vector<int32_t> prompt(shared.begin(), shared.begin() + n_shared);
    for (const int32_t token : some_tokens(2 + static_cast<int>(random() % 50), random()))
      prompt.push_back(token);
    SequenceRequest request = i % 3 == 0 ? sampled(prompt, n_tokens, random()) : greedy(prompt, n_tokens);
    if (i % 4 == 1) request.sampling.frequency_penalty = 0.7f;
    request.prefix_ends = {n_shared};
    request.n_top_logprobs = 2;
    requests.push_back(request);
  }
  return requests;
}

}  // namespace

TEST_CASE("engine with a layer that drafts: the same answers for every chunk, batch and cached prefix") {
  const std::vector<SequenceRequest> requests = mixed_requests(9, 60);
  const std::vector<Answer> expected = answers_alone("qwen35-nextn", requests);
  const int chunk = GENERATE(7, 64), n_slots = GENERATE(1, 4);
  CAPTURE(chunk, n_slots);
  const auto model = load("qwen35-nextn", {.n_slots = n_slots, .chunk = chunk});
  Engine engine(
      *model,
      {.n_slots = n_slots, .context_tokens = kContext, .prefill_chunk = chunk, .speculation = always()});
  for (int round = 0; round < 2; ++round) {
    const std::vector<Answer> answers = answers_of(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers_of(answers[i]) == numbers_of(expected[i]));
  }
  const EngineStatus status = engine.status();
  CHECK(status.n_cached_tokens > 0);
  // A good part of the drafts is right, after cached prefixes and snapshots too.
  CHECK(status.n_accepted_tokens > status.n_drafted_tokens / 4);
  CHECK(status.n_accepted_tokens < status.n_drafted_tokens);
}

TEST_CASE("engine with a layer that drafts: sequences that lose their slot give the same answers") {
  std::vector<SequenceRequest> requests;
  for (uint64_t i = 0; i < 4; ++i) requests.push_back(greedy(some_tokens(60, i), 300));
  const std::vector<Answer> expected = answers_alone("qwen35-nextn", requests);
  const auto model = load("qwen35-nextn", {.n_slots = 4, .n_contexts = 2});
  Engine engine(*model, {.n_slots = 4,
                         .context_tokens = kContext,
                         .prefill_chunk = 64,
                         .speculation = always(),
                         .promise_tokens = 16});
  const std::vector<Answer> answers = answers_of(engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers_of(answers[i]) == numbers_of(expected[i]));
  CHECK(engine.status().n_set_back > 0);
  CHECK(engine.status().n_accepted_tokens > 0);
}

TEST_CASE("engine with a layer that drafts: a mixture, and drafts chosen by their cost") {
  const std::string name = GENERATE("glm4moe", "deepseek2-v3-nextn", "qwen35-nextn", "mimo2-nextn", "gemma4");
  const int context = 64;  // of the tiny mixture
  std::vector<SequenceRequest> requests;
  for (uint64_t i = 0; i < 5; ++i) requests.push_back(greedy(some_tokens(10, i), 40));
  const std::vector<Answer> expected = answers_alone(name, requests, context);
  const auto model = load(name, {.n_slots = 2, .context = context});
  SpeculationOptions speculation = always();
  speculation.whatever_it_costs = GENERATE(false, true);
  Engine engine(*model,
                {.n_slots = 2, .context_tokens = context, .prefill_chunk = 64, .speculation = speculation});
  for (int round = 0; round < 3; ++round) {
    const std::vector<Answer> answers = answers_of(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers_of(answers[i]) == numbers_of(expected[i]));
  }
  if (speculation.whatever_it_costs) CHECK(engine.status().n_drafted_tokens > 50);
}

TEST_CASE("engine with a layer that drafts: embedded and scored texts between answers") {
  const auto model = load("qwen35-nextn", {});
  Engine engine(*model,
                {.n_slots = 3, .context_tokens = kContext, .prefill_chunk = 64, .speculation = always()});
  const std::vector<SequenceRequest> requests = mixed_requests(3, 40);
  const std::vector<Answer> expected = answers_alone("qwen35-nextn", requests);
  for (int round = 0; round < 2; ++round) {
    const auto embedded = submit(engine, embedding(some_tokens(90, 3), Pooling::kMean));
    const auto scores = submit(engine, scored(some_tokens(70, 4), 1));
    const std::vector<Answer> answers = answers_of(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers_of(answers[i]) == numbers_of(expected[i]));
    CHECK(read_all(*embedded, 1).front().embedding.size() == 32);
    CHECK(read_all(*scores, 1).front().prompt.size() == 69);
  }
}

TEST_CASE("engine with a layer that drafts: the layer takes memory only if it drafts") {
  const auto with = load("qwen35-nextn", {}), without = load("qwen35-nextn", {.nextn = false});
  CHECK(with->limits().predicts);
  CHECK_FALSE(without->limits().predicts);
  // One further layer with keys and values: two heads of 32 halves.
  const size_t n_positions = static_cast<size_t>(with->limits().n_blocks) * 16;
  CHECK(with->placed().kv_bytes - without->placed().kv_bytes == n_positions * 2 * 2 * 32 * 2);
  CHECK(with->placed().work_bytes > without->placed().work_bytes);
  CHECK_FALSE(load("qwen35", {})->limits().predicts);
  // A model that drafts for another one does so instead.
  const auto draft_model = load("qwen3", {.context = 64});
  SpeculationOptions speculation = always();
  speculation.draft_model = draft_model.get();
  speculation.draft_context = 64;
  Engine engine(*with, {.n_slots = 3, .context_tokens = kContext, .speculation = speculation});
  const std::vector<SequenceRequest> requests{greedy(some_tokens(10, 3), 30)};
  CHECK(numbers_of(ask(engine, requests[0])) == numbers_of(answers_alone("qwen35-nextn", requests).front()));
}

}  // namespace hearth::engine_nextn_test
