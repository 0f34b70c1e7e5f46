// The prompt tokens per step where the engine chooses them: the rule's results for shapes and machines.
#include "engine/prompt_step.h"

#include <filesystem>
#include <string>

#include "engine/residency/plan.h"
#include "engine/resolved_load.h"
#include "profiler/plan/planned_model.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

constexpr uint64_t kGigabyte = 1'000'000'000;
// At these rates, copying all weights takes as long as multiplying them by 791 tokens, with 4.5 bits per
// weight.
constexpr PromptRates kFast{.to_device_bytes_per_s = 25.6e9, .multiply_adds_per_s = 3.6e13};

PlannedModel shape(std::string_view name) { return model_of_shape(*find_shape(name), DType::kQ4_0, ""); }

PromptStepFacts facts_of(const PlannedModel& model, std::optional<uint64_t> budget, PromptRates rates = {}) {
  return {.spec = model.spec,
          .weights = model.weights,
          .context_tokens = 4096,
          .n_slots = 1,
          .n_kv_contexts = 0,
          .device_budget_bytes = budget,
          .rates = rates};
}

TEST_CASE("without a GPU a step has 128 prompt tokens") {
  const PromptStep step = prompt_step(facts_of(shape("7b"), std::nullopt, kFast));
  CHECK(step.tokens == 128);
  CHECK(step.beside_streams == 128);
}

TEST_CASE("a GPU with the whole model gets steps that fill it, and short ones beside streams") {
  const PromptStep step = prompt_step(facts_of(shape("7b"), 24 * kGigabyte, kFast));
  CHECK(step.tokens == 512);
  CHECK(step.beside_streams == 128);
}

TEST_CASE(
    "a step that copies weights has enough tokens to compute as long as it copies, beside streams too") {
  const PlannedModel model = shape("llama-70b");  // 39 GB
  // About four tenths of the weights are copied. The step has fewer tokens than a GPU can use at once, and
  // none of them delays running streams.
  const PromptStep half = prompt_step(facts_of(model, 24 * kGigabyte, kFast));
  CHECK(half.tokens == 512);
  CHECK(half.beside_streams > 256);
  CHECK(half.beside_streams < 512);
  // With half the bus speed, the step has twice as many tokens.
  const PromptStep slow = prompt_step(
      facts_of(model, 24 * kGigabyte, {.to_device_bytes_per_s = 12.8e9, .multiply_adds_per_s = 3.6e13}));
  CHECK(slow.tokens > 512);
  CHECK(slow.tokens < 1024);
  CHECK(slow.tokens % 64 == 0);
  CHECK(slow.beside_streams == slow.tokens);
  // The number of tokens has a limit.
  CHECK(prompt_step(
            facts_of(model, 24 * kGigabyte, {.to_device_bytes_per_s = 6e9, .multiply_adds_per_s = 9e13}))
            .tokens == 1024);
  // For an unmeasured machine, PCIe 4 is assumed.
  CHECK(prompt_step(facts_of(model, 24 * kGigabyte)).tokens == 512);
}

TEST_CASE("scratch takes at most a sixteenth of the budget, except for steps of 128") {
  const PlannedModel model = shape("llama-70b");
  const auto scratch = [&](int tokens) {
    PassBounds bounds = load_bounds(4096, 1, tokens);
    bounds.shares = true;
    return step_scratch_bytes(model.spec, model.weights, bounds);
  };
  const uint64_t just = 16 * scratch(512);
  REQUIRE(just < 12 * kGigabyte);
  CHECK(prompt_step(facts_of(model, just)).tokens == 512);
  CHECK(prompt_step(facts_of(model, just - 1)).tokens == 256);
  CHECK(prompt_step(facts_of(model, 1)).tokens == 128);
}

TEST_CASE("layers that draft take scratch, which leaves room for fewer tokens") {
  const std::filesystem::path folder = std::filesystem::path(testing::source_dir()) / "tests/data/arch";
  const char* name = GENERATE("qwen35-nextn", "mimo2-nextn", "glm4moe");
  const PlannedModel model = model_of_file(folder / (std::string(name) + ".gguf"), "");
  REQUIRE(model.nextn);
  PassBounds bounds = load_bounds(4096, 1, 512);
  (model.spec.has_experts() ? bounds.holds_experts : bounds.shares) = true;
  PromptStepFacts facts = facts_of(model, 16 * step_scratch_bytes(model.spec, model.weights, bounds));
  facts.context_tokens = 512;
  CHECK(prompt_step(facts).tokens >= 512);
  facts.nextn = model.nextn.get();
  CHECK(prompt_step(facts).tokens < 512);
}

TEST_CASE("weights are copied for steps in which the CPU would take longer than the copy") {
  const PlannedModel q4 = shape("7b");  // 4.5 bits
  CHECK(streamed_from(q4.weights, {}) == 12);
  // Desktop machines, and a server whose processor multiplies tiles.
  CHECK(streamed_from(q4.weights, {.to_device_bytes_per_s = 25.6e9, .cpu_multiply_adds_per_s = 0.32e12}) ==
        8);
  CHECK(streamed_from(q4.weights, {.to_device_bytes_per_s = 56.3e9, .cpu_multiply_adds_per_s = 12e12}) ==
        120);
  // One rate is known, the other is not.
  CHECK(streamed_from(q4.weights, {.to_device_bytes_per_s = 12.5e9}) == 23);
  // Weights of 8.5 bits take longer to copy.
  const PlannedModel q8 = model_of_shape(*find_shape("7b"), DType::kQ8_0, "");
  CHECK(streamed_from(q8.weights, {}) == 22);
  // Extreme rates still give a valid number of tokens.
  CHECK(streamed_from(q4.weights, {.to_device_bytes_per_s = 1, .cpu_multiply_adds_per_s = 1e15}) ==
        1'000'000);
  CHECK(streamed_from(q4.weights, {.to_device_bytes_per_s = 1e15, .cpu_multiply_adds_per_s = 1e9}) == 1);
}

TEST_CASE("a step has no more tokens than a context") {
  const PlannedModel model = shape("7b");
  PromptStepFacts facts = facts_of(model, 24 * kGigabyte);
  facts.context_tokens = 300;
  CHECK(prompt_step(facts).tokens == 300);
  facts.context_tokens = 40;
  CHECK(prompt_step(facts).tokens == 128);
}

}  // namespace
}  // namespace hearth
