// The options of subcommands that plan a placement: the machine, its budgets, the load, and the activity of
// the model's neurons.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/options.h"
#include "profiler/placement/known_activity.h"
#include "profiler/plan/plan_answer.h"

namespace hearth {

struct PlanOptions {
  std::string machine, activity_file;
  std::optional<double> active;
  const CLI::Option* sparsity =
      nullptr;  // tells whether a mode was given; if not, all modes of the model are compared
};

/// Adds the options of a plan and, from the table of options, the budgets, the load and the mode. `plan` and
/// `options` must outlive the parsing.
void add_plan_options(CLI::App& command, PlanOptions& plan, Options& options);

/// The question for the planner, without machine and activity. The model must outlive it. Throws
/// std::runtime_error (one sentence) if options do not fit the model.
PlanQuestion plan_question(const PlanOptions& plan, const Options& options, const PlannedModel& model);

/// Adds the machine that the options name, or this machine. If this machine was not measured yet, measures
/// it, with progress on the terminal. Throws std::runtime_error if there is no such machine, or if a VRAM
/// budget is given and the machine has no GPU.
void add_machine(const PlanOptions& options, PlanQuestion& question);

/// The activity in the file that --activity names (from hearth-profiler count, or CSV). Without that option,
/// the activity in the cache folder or in a file beside the model; the terminal names a file beside the
/// model. Throws std::runtime_error if the named file is not such a file or is another model's.
KnownCounts find_counts(const PlanOptions& options, const PlannedModel& model);

}  // namespace hearth
