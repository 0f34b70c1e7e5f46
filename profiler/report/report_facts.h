// From what was planned and measured to what a report shows. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "engine/activity/activity_file.h"
#include "profiler/plan/plan_answer.h"
#include "profiler/report/held_out.h"
#include "profiler/report/report_data.h"

namespace hearth {

/// A short run, in tokens per second.
struct SpeedMeasured {
  int n_prompt = 0, n_generated = 0;
  PlacementSolution expected;  // of such a run
  double prefill = 0, decode = 0;
};

struct ReportInputs {
  const PlanQuestion& question;
  const PlanAnswer& answer;
  const Activity* counted = nullptr;    // null: the model's neurons were not counted
  const HeldOut* held_out = nullptr;    // null: not run
  std::optional<SpeedMeasured> speed;   // nullopt: not measured; then the plan's speeds are shown
  std::vector<std::string> notes = {};  // sentences, after the plan's
  std::string made;                     // date and version
};

ReportData report_data(const ReportInputs& in);

}  // namespace hearth
