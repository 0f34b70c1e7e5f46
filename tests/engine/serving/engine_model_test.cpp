// The engine with the real forward pass: the bits of tokens and log-probabilities do not depend on what else
// is in a batch, how prompts are cut, how many threads compute, or whether a prefix comes from the cache.
#include <filesystem>
#include <random>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

constexpr int kTinyContext = 64;  // the context that the tiny models were made for

std::unique_ptr<ModelRuntime> load(const std::string& file, int n_slots, int chunk, int n_threads,
                                   int n_kv_contexts = 0) {
  LoadOptions options;
  options.n_kv_contexts = n_kv_contexts;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data" / file;
  options.n_threads = n_threads;
  options.n_slots = n_slots;
  options.prefill_chunk = chunk;
  options.context_tokens = kTinyContext;
  return ModelRuntime::load(options);
}

std::vector<SequenceRequest> the_requests() {
  SequenceRequest scoring = sampled(some_tokens(35, 3), 8, 5);
  scoring.prompt_logprobs = true;
  std::vector<SequenceRequest> requests = {greedy(some_tokens(40, 1), 24), sampled(some_tokens(37, 2), 24, 7),
                                           scoring};
  for (SequenceRequest& request : requests) request.n_top_logprobs = 3;
  return requests;
}

}  // namespace

TEST_CASE("engine over a model: an answer depends on nothing but its request") {
  const std::string file =
      GENERATE("arch/llama.gguf", "arch/qwen3.gguf", "arch/qwen35moe.gguf", "relu/relu-5m-q8_0.gguf");
  const std::vector<SequenceRequest> requests = the_requests();
  std::vector<std::vector<float>> expected;
  {
    const auto model = load(file, 1, 128, 1);
    Engine engine(*model, {.n_slots = 1, .context_tokens = kTinyContext});
    for (const SequenceRequest& request : requests) expected.push_back(numbers_of(ask(engine, request)));
  }
  const int chunk = GENERATE(1, 7, 40);
  const auto model = load(file, 6, chunk, 1 + chunk % 2);
  Engine engine(*model, {.n_slots = 6, .context_tokens = kTinyContext, .prefill_chunk = chunk});
  std::mt19937_64 random(static_cast<uint64_t>(chunk));
  std::vector<std::shared_ptr<TokenStream>> others;
  for (int i = 0; i < 5; ++i) {
    std::vector<int32_t> prompt(requests[0].prompt.begin(), requests[0].prompt.begin() + (i % 2) * 20);
    for (const int32_t token : some_tokens(1 + static_cast<int>(random() % 20), random()))
      prompt.push_back(token);
    others.push_back(submit(engine, sampled(prompt, 20, random())));
  }
  const auto stream = submit(engine, GenerationRequest{.sequences = requests});
  const std::vector<Answer> among_others = read_all(*stream, 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(numbers_of(among_others[i]) == expected[i]);
    const Answer again = ask(engine, requests[i]);
    CHECK(numbers_of(again) == expected[i]);
    CHECK((again.finished.n_cached_tokens > 0) == (i < 2));
  }
  for (const auto& other : others)
    CHECK(read_all(*other, 1).front().finished.reason == FinishReason::kLength);
}

TEST_CASE(
    "engine over a model: in a pool for one context, sequences that are set back get the same answers") {
  const std::string file =
      GENERATE("arch/llama.gguf", "arch/qwen3.gguf", "arch/qwen35moe.gguf", "relu/relu-5m-q8_0.gguf");
  const int chunk = GENERATE(7, 40);
  std::vector<SequenceRequest> requests;
  for (int i = 0; i < 6; ++i) {
    const std::vector<int32_t> prompt = some_tokens(5 + 2 * i, static_cast<uint64_t>(i));
    const int max_tokens = kTinyContext - static_cast<int>(prompt.size());
    requests.push_back(i % 2 == 0 ? greedy(prompt, max_tokens) : sampled(prompt, max_tokens, 7));
    requests.back().n_top_logprobs = 3;
  }
  const auto model = load(file, 3, chunk, 1, 1);
  REQUIRE(model->limits().n_blocks == kTinyContext / model->limits().block_tokens);
  Engine engine(*model,
                {.n_slots = 3, .context_tokens = kTinyContext, .prefill_chunk = chunk, .promise_tokens = 4});
  const std::vector<Answer> together =
      read_all(*submit(engine, GenerationRequest{.sequences = requests}), static_cast<int>(requests.size()));
  CHECK(engine.status().n_set_back > 0);
  for (size_t i = 0; i < requests.size(); ++i)
    CHECK(numbers_of(ask(engine, requests[i])) == numbers_of(together[i]));
}

TEST_CASE("engine over a model: an embedding depends on nothing but its text") {
  const std::string file = GENERATE("arch/llama.gguf", "arch/qwen3.gguf", "arch/qwen35moe.gguf",
                                    "arch/opt.gguf", "relu/relu-5m-q8_0.gguf");
  std::vector<SequenceRequest> requests;
  for (const Pooling pooling : {Pooling::kMean, Pooling::kFirst, Pooling::kLast}) {
    SequenceRequest request = greedy(some_tokens(41, 4), 0);
    request.embedding = pooling;
    requests.push_back(request);
  }
  std::vector<std::vector<float>> expected;
  {
    const auto model = load(file, 1, 128, 1);
    Engine engine(*model, {.n_slots = 1, .context_tokens = kTinyContext});
    for (const SequenceRequest& request : requests) expected.push_back(ask(engine, request).embedding);
  }
  CHECK(expected[0] != expected[2]);
  const int chunk = GENERATE(1, 7, 40);
  const auto model = load(file, 6, chunk, 1 + chunk % 2);
  Engine engine(*model, {.n_slots = 6, .context_tokens = kTinyContext, .prefill_chunk = chunk});
  std::vector<std::shared_ptr<TokenStream>> others;
  for (uint64_t i = 0; i < 5; ++i) others.push_back(submit(engine, sampled(some_tokens(12, i), 20, i)));
  const auto stream = submit(engine, GenerationRequest{.sequences = requests});
  const std::vector<Answer> among_others = read_all(*stream, 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(among_others[i].embedding.size() == static_cast<size_t>(model->limits().d_model));
    CHECK(among_others[i].embedding == expected[i]);
  }
  for (const auto& other : others)
    CHECK(read_all(*other, 1).front().finished.reason == FinishReason::kLength);
}
