// Plans for the load of the run.
#include "profiler/plan/expected_run.h"

#include <algorithm>

#include "profiler/plan/mixture_plan.h"

namespace hearth {

ExpectedRun expected_run(const PlanQuestion& question, const RunLoad& run, const ActivityCounts& experts) {
  // While the run decodes, its tokens fill this share of the context on average.
  PlanQuestion such = question;
  such.load.prefill_chunk = std::min(run.chunk, run.n_prompt);
  such.assumptions.context_filled = (run.n_prompt + run.n_generate / 2.0) / question.load.context_tokens;
  if (question.model.spec.has_experts()) {
    const MixturePlan plan = plan_mixture(such, &experts);
    return {.prefill = 1 / plan.prefill.seconds(), .decode = 1 / plan.decode.seconds()};
  }
  const PlacementSolution best = answer_plan(such).best;
  return {.prefill = 1 / best.prefill_seconds, .decode = 1 / best.seconds()};
}

}  // namespace hearth
