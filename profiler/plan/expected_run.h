// Predicts the speed of one run: a prompt, and then some generated tokens.
//
// Called by the subcommands that also measure such a run, so that prediction and measurement have the same
// load. Any thread.
#pragma once

#include "engine/activity/activity_counts.h"
#include "profiler/plan/plan_answer.h"

namespace hearth {

/// The work of one run.
struct RunLoad {
  int n_prompt = 0, n_generate = 0;  // tokens
  int chunk = 0;                     // prompt tokens per step
};

/// Tokens per second, if no other program uses the machine.
struct ExpectedRun {
  double prefill = 0, decode = 0;
};

/// Predicts the run of a model with the best placement for the question. question: its context must hold the
/// run. experts: the counts of a mixture's experts; unused for other models. Throws like answer_plan() and
/// plan_mixture().
ExpectedRun expected_run(const PlanQuestion& question, const RunLoad& run, const ActivityCounts& experts);

}  // namespace hearth
