// The results of a replay, as a table for people or as JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "profiler/plan/plan_answer.h"
#include "profiler/replay/replay.h"

namespace hearth {

/// The subject of a replay: its machine, trace and budget.
struct ReplayedTrace {
  const PlanQuestion& question;  // the machine and the model
  const ExpertTrace& trace;
  std::string trained_on;     // "the first 512 tokens", "other.trace"
  double budget_bytes = 0;    // of the GPU's memory, for experts
  double other_bytes = 0;     // that the model takes of it besides
  bool exact_optimum = true;  // see OptimalHits
  double prefetch_accuracy = kPrefetchAccuracy;
};

/// A few lines about the trace and a line for each policy.
std::string replay_text(const ReplayedTrace& replayed, std::span<const PolicyResult> results);
/// One JSON object.
std::string replay_json(const ReplayedTrace& replayed, std::span<const PolicyResult> results);

}  // namespace hearth
