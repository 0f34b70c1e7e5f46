// The engine with a model whose neurons a device and the CPU share: many concurrent requests, some of them
// cancelled at random, get the answers that each gets alone.
#include <random>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

constexpr int kContext = 64;

std::unique_ptr<ModelRuntime> load(Share share, int n_slots) {
  LoadOptions options = device_options("arch/bamboo.powerinfer.gguf");
  options.n_threads = 2;
  options.n_slots = n_slots;
  options.prefill_chunk = 16;
  options.context_tokens = kContext;
  options.choose_placement = placed(share, /*all_gates=*/true, share == Share::kAll ? 0 : 8);
  return ModelRuntime::load(options);
}

std::vector<SequenceRequest> requests(int n) {
  std::mt19937_64 random(11);
  std::vector<SequenceRequest> all;
  for (int i = 0; i < n; ++i) {
    const int n_prompt = 1 + static_cast<int>(random() % 20);
    all.push_back(i % 2 == 0 ? greedy(some_tokens(n_prompt, random()), 6)
                             : sampled(some_tokens(n_prompt, random()), 6, random()));
  }
  return all;
}

/// Prompts of several lengths whose first halves are the beginning of one text.
std::vector<SequenceRequest> requests_with_one_beginning(int max_tokens) {
  std::vector<SequenceRequest> requests;
  for (const int n : {70, 33, 90, 51, 12}) {
    std::vector<int32_t> prompt = some_tokens(n / 2, 1);
    for (const int32_t token : some_tokens(n - n / 2, static_cast<uint64_t>(n))) prompt.push_back(token);
    requests.push_back(n % 2 == 0 ? greedy(prompt, max_tokens) : sampled(prompt, max_tokens, 3));
  }
  return requests;
}

/// Asks all at once, twice, and compares the answers.
void check_in_a_crowd(Engine& engine, const std::vector<SequenceRequest>& asked,
                      const std::vector<std::vector<int32_t>>& expected) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (const SequenceRequest& request : asked) streams.push_back(submit(engine, request));
    for (size_t i = 0; i < streams.size(); ++i) {
      INFO("round " << round << " request " << i);
      CHECK(read_all(*streams[i], 1).front().tokens == expected[i]);
    }
  }
}

TEST_CASE("requests sharing a device, with random cancellations, get the same answers as alone") {
  constexpr int kRequests = 32;
  const std::vector<SequenceRequest> asked = requests(kRequests);
  std::vector<std::vector<int32_t>> alone;
  {
    const auto model = load(Share::kAll, 1);
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});
    for (const SequenceRequest& request : asked) alone.push_back(ask(engine, request).tokens);
  }
  const auto model = load(Share::kThird, 4);
  Engine engine(*model,
                {.n_slots = 4, .context_tokens = kContext, .queue_capacity = kRequests, .prefill_chunk = 16});
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (const SequenceRequest& request : asked) streams.push_back(submit(engine, request));
  std::mt19937 random(12);
  int n_whole = 0, n_cancelled = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (random() % 3 == 0) streams[i + random() % (streams.size() - i)]->cancel();
    const Answer answer = read_all(*streams[i], 1).front();
    INFO("request " << i);
    REQUIRE(answer.finished.reason != FinishReason::kFailed);
    REQUIRE(answer.tokens.size() <= alone[i].size());
    CHECK(std::equal(answer.tokens.begin(), answer.tokens.end(), alone[i].begin()));
    (answer.finished.reason == FinishReason::kCancelled ? n_cancelled : n_whole) += 1;
  }
  CHECK(n_whole > 0);
  CHECK(n_cancelled > 0);
}

SequenceRequest embedding(int n_tokens, uint64_t seed, Pooling pooling) {
  SequenceRequest request = greedy(some_tokens(n_tokens, seed), 0);
  request.embedding = pooling;
  return request;
}

TEST_CASE("a plain model embeds on the device with the CPU's bits, alone and beside generations") {
  LoadOptions options = device_options("arch/qwen3.gguf", "dense");
  options.n_slots = 4;
  options.prefill_chunk = 16;
  const std::vector<SequenceRequest> texts = {
      embedding(40, 1, Pooling::kMean), embedding(17, 2, Pooling::kLast), embedding(1, 3, Pooling::kMean),
      embedding(33, 4, Pooling::kFirst)};
  std::vector<std::vector<float>> on_cpu;
  {
    LoadOptions cpu = options;
    cpu.device = DeviceChoice::kCpu;
    const auto model = ModelRuntime::load(cpu);
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext});
    for (const SequenceRequest& text : texts) on_cpu.push_back(ask(engine, text).embedding);
  }
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->placed().backend.starts_with("CUDA "));
  Engine engine(*model, {.n_slots = 4, .context_tokens = kContext, .prefill_chunk = 16});
  const std::vector<int32_t> alone = ask(engine, greedy(some_tokens(9, 5), 40)).tokens;
  const auto generation =
      submit(engine, greedy(some_tokens(9, 5), 40));  // its steps are recorded and played back
  for (int round = 0; round < 2; ++round) {
    const std::vector<Answer> answers = read_all(*submit(engine, GenerationRequest{texts}), 4);
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text " << i);
      if (supported_isas().front() != Isa::kScalar) CHECK(answers[i].embedding == on_cpu[i]);
      CHECK(answers[i].embedding == ask(engine, texts[i]).embedding);
    }
  }
  CHECK(read_all(*generation, 1).front().tokens == alone);
}

TEST_CASE("a model with windows answers on the device as on the CPU, in a crowd and from the prefix cache") {
  const std::string name = GENERATE(from_range(some_of({"gemma2", "phi3-long"})));
  INFO(name);
  const WindowModel file(name);
  LoadOptions options = file.options();
  options.prefill_chunk = 16;
  const std::vector<SequenceRequest> asked = requests_with_one_beginning(20);
  std::vector<std::vector<int32_t>> on_cpu;
  {
    LoadOptions cpu = options;
    cpu.device = DeviceChoice::kCpu;
    const auto model = ModelRuntime::load(cpu);
    Engine engine(*model, {.n_slots = 1, .context_tokens = WindowModel::kContext, .prefill_chunk = 16});
    for (const SequenceRequest& request : asked) on_cpu.push_back(ask(engine, request).tokens);
  }
  options.n_slots = 3;
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->placed().backend.starts_with("CUDA "));
  REQUIRE(model->limits().window);
  Engine engine(*model, {.n_slots = 3, .context_tokens = WindowModel::kContext, .prefill_chunk = 16});
  check_in_a_crowd(engine, asked, on_cpu);
  // Among other requests a prefix may be evicted before it is reused; alone it is found.
  const std::vector<int32_t> prompt = some_tokens(90, 9);
  const int block_tokens = model->limits().block_tokens;
  REQUIRE(90 % block_tokens > 0);
  ask(engine, greedy(prompt, 1));
  CHECK(ask(engine, greedy(prompt, 1)).finished.n_cached_tokens == 90 / block_tokens * block_tokens);
}

TEST_CASE("a mixture with states answers on the device as on the CPU, from snapshots and after drafts") {
  const std::string name = GENERATE("qwen35moe", "lfm2moe");
  INFO(name);
  LoadOptions options = device_options("arch/" + name + ".gguf", "dense");
  options.context_tokens = 256;
  options.prefill_chunk = 16;
  const EngineOptions engine_options{.n_slots = 3, .context_tokens = 256, .prefill_chunk = 16};
  std::vector<SequenceRequest> asked = requests_with_one_beginning(40);
  // Drafts from this text are sometimes right.
  const auto text = std::make_shared<const std::vector<int32_t>>(some_tokens(200, 5));
  for (SequenceRequest& request : asked) request.prediction = text;
  std::vector<std::vector<int32_t>> on_cpu;
  {
    LoadOptions cpu = options;
    cpu.device = DeviceChoice::kCpu;
    const auto model = ModelRuntime::load(cpu);
    Engine engine(*model, {.n_slots = 1, .context_tokens = 256, .prefill_chunk = 16});
    for (const SequenceRequest& request : asked) on_cpu.push_back(ask(engine, request).tokens);
  }
  options.n_slots = 3;
  const DeviceBytes all = ModelRuntime::load(options)->placed().plan->device;
  CHECK(all.states > 0);
  options.vram_budget_bytes = all.total() - all.experts / 2;
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->placed().backend.starts_with("CUDA "));
  EngineOptions drafting = engine_options;
  drafting.speculation.on = true;
  drafting.speculation.whatever_it_costs = true;
  Engine engine(*model, drafting);
  check_in_a_crowd(engine, asked, on_cpu);
  CHECK(engine.status().n_cached_tokens > 0);
  const std::vector<int32_t> prompt = some_tokens(90, 9);
  const std::vector<int32_t> first = ask(engine, greedy(prompt, 20)).tokens;
  const Answer again = ask(engine, greedy(prompt, 20));
  CHECK(again.finished.n_cached_tokens == 80);
  CHECK(again.tokens == first);
}

TEST_CASE("states that are restored after a step was recorded are whole") {
  const std::string name = GENERATE("qwen35", "lfm2");
  INFO(name);
  LoadOptions options = device_options("arch/" + name + ".gguf", "dense");
  options.context_tokens = 256;
  options.n_slots = 2;
  LoadOptions cpu = options;
  cpu.device = DeviceChoice::kCpu;
  const auto on_cpu = ModelRuntime::load(cpu), on_device = ModelRuntime::load(options);
  const EngineOptions engine_options{.n_slots = 2, .context_tokens = 256};
  Engine reference(*on_cpu, engine_options), engine(*on_device, engine_options);
  const std::vector<int32_t> shared = some_tokens(65, 3);
  for (int n = 1; n < 8; ++n) {  // the last decode step is a shape's first, second, ...
    std::vector<int32_t> prompt = shared;
    prompt.push_back(n);
    const Answer answer = ask(engine, greedy(prompt, n));
    CHECK(answer.tokens == ask(reference, greedy(prompt, n)).tokens);
    CHECK(answer.finished.n_cached_tokens == (n == 1 ? 0 : 64));
  }
}

TEST_CASE("a model shared with the device embeds with the same bits however it is shared") {
  const SequenceRequest text = embedding(40, 6, Pooling::kMean);
  std::vector<float> expected;
  for (const Share share : {Share::kAll, Share::kThird, Share::kNone}) {
    const auto model = load(share, 2);
    Engine engine(*model, {.n_slots = 2, .context_tokens = kContext, .prefill_chunk = 16});
    const std::vector<float> found = ask(engine, text).embedding;
    REQUIRE(found.size() == 64);
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
}

}  // namespace
}  // namespace hearth::testing
