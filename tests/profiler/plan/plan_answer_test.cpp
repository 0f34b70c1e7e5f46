// Tests how many contexts fit in a plan by the engine's rule, and the gains that docs/predictions.md states.
#include "profiler/plan/plan_answer.h"

#include "engine/forward/kv_memory.h"
#include "engine/placement/place_model.h"
#include "profiler/machine/shipped_machines.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

constexpr PlanLoad kFourSlots{
    .context_tokens = 4096, .n_slots = 4, .n_kv_contexts = kKvContextsDecided, .prefill_chunk = 128};

PlanQuestion question_of(const PlannedModel& model, const PlanLoad& load) {
  return {.model = model,
          .machine = machine_named("rtx4090"),
          .vram_bytes = std::nullopt,
          .ram_bytes = std::nullopt,
          .load = load,
          .modes = {Sparsity::kDense},
          .activity = std::nullopt,
          .active = std::nullopt,
          .assumptions = {}};
}

PlanLoad with_contexts(PlanLoad load, int n) {
  load.n_kv_contexts = n;
  return load;
}

/// The engine's plan on a machine that was not measured, with contexts added.
struct Planned {
  Planned(const PlannedModel& model, Sparsity mode, const PlanLoad& load, DeviceSplit split, size_t budget)
      : basis(model, mode, load), n_contexts(load.contexts_to_plan()) {
    PlanInputs inputs = basis.inputs();
    inputs.split = split;
    PlacementFacts facts;
    facts.found = [this](const PlacementSolution& solution) { token_seconds = solution.seconds(); };
    plan = placed_plan(inputs, place_model(facts, inputs, budget).value(), budget);
    if (!load.decides_contexts()) return;
    n_contexts = add_contexts(plan, inputs, n_contexts, load.n_slots,
                              [&](int n) { return kv_block_counts(model.spec, load, n); });
  }

  PlanBasis basis;
  int n_contexts;
  double token_seconds = 0;
  Plan plan;
};

TEST_CASE("a 7B model in Q4_0 with four slots of 4,096 tokens fits in 12 GB") {
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  constexpr size_t kBudget = 12'000'000'000;
  const Planned four(model, Sparsity::kDense, with_contexts(kFourSlots, 4), DeviceSplit::kAuto, kBudget);
  CHECK_FALSE(four.plan.whole());
  const Planned decided(model, Sparsity::kDense, kFourSlots, DeviceSplit::kAuto, kBudget);
  CHECK(decided.plan.whole());
  CHECK(decided.n_contexts == 3);
  CHECK(decided.plan.device.total() <= kBudget);
  CHECK(decided.plan.device.kv == 3 * size_t{2 * 2 * 4096} * 32 * 4096);
}

TEST_CASE("a 70B model in Q4_0 with four slots of 4,096 tokens is faster with one context in 24 GB") {
  const auto [mode, activation] =
      GENERATE(std::pair{Sparsity::kDense, "silu"}, std::pair{Sparsity::kExact, "relu"},
               std::pair{Sparsity::kPredicted, "relu"});
  const PlannedModel model = model_of_shape(*find_shape("70b"), DType::kQ4_0, activation);
  constexpr size_t kBudget = 24'000'000'000;
  const Planned four(model, mode, with_contexts(kFourSlots, 4), DeviceSplit::kNeurons, kBudget);
  const Planned decided(model, mode, kFourSlots, DeviceSplit::kNeurons, kBudget);
  CHECK(decided.n_contexts == 1);
  CHECK(decided.plan.n_device_layers() >= four.plan.n_device_layers());
  CHECK(decided.token_seconds < 0.95 * four.token_seconds);
  CHECK(decided.plan.device.total() <= kBudget);
}

TEST_CASE("whole layers: keys and values of a 70B model leave room for more of them") {
  const PlannedModel model = model_of_shape(*find_shape("70b"), DType::kQ4_0, "silu");
  constexpr size_t kBudget = 24'000'000'000;
  const Planned four(model, Sparsity::kDense, with_contexts(kFourSlots, 4), DeviceSplit::kAuto, kBudget);
  const Planned decided(model, Sparsity::kDense, kFourSlots, DeviceSplit::kAuto, kBudget);
  CHECK(decided.n_contexts == 1);
  CHECK(decided.plan.n_device_layers() > four.plan.n_device_layers());
  // The other layers have theirs in host memory.
  const size_t of_a_layer = size_t{2 * 2 * 1024} * 4096;
  CHECK(decided.plan.device.kv == static_cast<size_t>(decided.plan.n_device_layers()) * of_a_layer);
}

TEST_CASE("an answer reports the contexts, and its bytes include their keys and values") {
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  PlanQuestion question = question_of(model, kFourSlots);
  const PlanAnswer decided = answer_plan(question);
  CHECK(decided.n_kv_contexts == 4);
  question.load.n_kv_contexts = 0;
  const PlanAnswer four = answer_plan(question);
  CHECK(four.n_kv_contexts == 4);
  CHECK(decided.best.vram_bytes == four.best.vram_bytes);
  CHECK(decided.best.seconds() == four.best.seconds());

  question.load.n_kv_contexts = kKvContextsDecided;
  question.vram_bytes = 12'000'000'000;
  const PlanAnswer three = answer_plan(question);
  CHECK(three.n_kv_contexts == 3);
  CHECK(three.best.vram_bytes <= *question.vram_bytes);
  CHECK_THAT(plan_text(question, three), ContainsSubstring("KV cache for 3 at once"));
  CHECK_THAT(plan_json(question, three), ContainsSubstring("\"kv_contexts\": 3"));
  question.vram_bytes = 3'000'000'000;
  CHECK(answer_plan(question).n_kv_contexts == 1);
}

TEST_CASE("without a GPU an answer has contexts for half of the slots, as far as RAM goes") {
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  PlanQuestion question = question_of(model, kFourSlots);
  question.machine.gpu.reset();
  const PlanAnswer two = answer_plan(question);
  CHECK(two.n_kv_contexts == 2);
  question.load.n_kv_contexts = 1;
  const int64_t one = answer_plan(question).best.ram_bytes;
  CHECK(two.best.ram_bytes == one + int64_t{2 * 2 * 4096} * 32 * 4096);
  question.load.n_kv_contexts = kKvContextsDecided;
  question.ram_bytes = two.best.ram_bytes - 1;
  CHECK(answer_plan(question).n_kv_contexts == 1);
}

}  // namespace
}  // namespace hearth::testing
