// The prediction for one run: it equals the plan for a load with the run's steps and length.
#include "profiler/plan/expected_run.h"

#include "profiler/machine/shipped_machines.h"
#include "profiler/plan/mixture_plan.h"
#include "profiler/synthesis/synth_file.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

PlanQuestion question_of(const PlannedModel& model) {
  return {.model = model,
          .machine = machine_named("rtx4090"),
          .vram_bytes = std::nullopt,
          .ram_bytes = std::nullopt,
          .load = {.context_tokens = 1024, .n_slots = 1, .prefill_chunk = 128, .experts = false},
          .modes = {},
          .activity = std::nullopt,
          .active = std::nullopt,
          .assumptions = {}};
}

TEST_CASE("expected run: a dense model's run is planned with its own steps and length") {
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  const PlanQuestion question = question_of(model);
  const ExpectedRun run = expected_run(question, {.n_prompt = 100, .n_generate = 312, .chunk = 128}, {});

  PlanQuestion such = question;
  such.load.prefill_chunk = 100;  // the prompt is shorter than a step
  such.assumptions.context_filled = 0.25;
  const PlacementSolution best = answer_plan(such).best;
  CHECK(run.decode == 1 / best.seconds());
  CHECK(run.prefill == 1 / best.prefill_seconds);

  // A longer run reads more keys and values for each token.
  const ExpectedRun longer = expected_run(question, {.n_prompt = 1000, .n_generate = 24, .chunk = 100}, {});
  CHECK(longer.decode < run.decode);
}

TEST_CASE("expected run: a mixture's run is planned as a mixture") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  PlanQuestion question = question_of(model);
  question.machine.gpu.reset();
  const ExpectedRun run = expected_run(question, {.n_prompt = 512, .n_generate = 512, .chunk = 64}, {});
  question.load.prefill_chunk = 64;
  question.assumptions.context_filled = 0.75;
  const ActivityCounts none;
  const MixturePlan plan = plan_mixture(question, &none);
  CHECK(run.decode == 1 / plan.decode.seconds());
  CHECK(run.prefill == 1 / plan.prefill.seconds());
}

}  // namespace
}  // namespace hearth::test
