// The engine as its users see it, over a model whose answers depend on every token of the history.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <latch>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "tests/engine/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;
using namespace std::chrono_literals;

TEST_CASE("the engine continues a prompt as the model alone would") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  for (const int n : {1, 3, 4, 5, 17, 40}) {
    const std::vector<int32_t> prompt = some_tokens(n, static_cast<uint64_t>(n));
    const Answer answer = ask(engine, greedy(prompt, 10));
    CHECK(answer.tokens == continuation(prompt, 10));
    CHECK(answer.finished.reason == FinishReason::kLength);
    CHECK(answer.finished.n_prompt_tokens == n);
    CHECK(answer.finished.n_generated_tokens == 10);
  }
}
