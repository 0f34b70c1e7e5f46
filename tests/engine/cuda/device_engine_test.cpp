// The engine over a model whose neurons a device and the CPU share: many requests at once, some of them
// cancelled at any moment, give the answers that each gets alone.
#include <random>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"

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

TEST_CASE("requests that share a device and are cancelled at random get the answers they get alone") {
  constexpr int kRequests = 64;
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

}  // namespace
}  // namespace hearth::testing
