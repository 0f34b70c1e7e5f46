// The options of subcommands that plan a placement: the machine, its budgets, how much runs at once, and how
// active the model's neurons are.
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
      nullptr;  // whether a mode was asked for; if not, all modes that the model has are compared
};

/// Adds the options of a plan and, from the table of options, the budgets, the load and the mode. `plan` and
/// `options` must outlive the parsing.
void add_plan_options(CLI::App& command, PlanOptions& plan, Options& options);

/// The question for the planner, without machine and activity. The model must outlive it. Throws
/// std::runtime_error (one sentence) if options do not fit the model.
PlanQuestion plan_question(const PlanOptions& plan, const Options& options, const PlannedModel& model);

/// Adds the machine that the options name, or this machine. This machine is measured if that has not been
/// done, with progress on the terminal. Throws std::runtime_error if there is no such machine, or if it lacks
/// what a budget is for.
void add_machine(const PlanOptions& options, PlanQuestion& question);

/// The activity of the file that --activity names (from hearth-profiler count, or CSV). Without that option,
/// what is kept of the model or lies beside its file; a line on the terminal says what was found beside it.
/// Throws std::runtime_error if the named file is not such a file or is another model's.
KnownCounts find_counts(const PlanOptions& options, const PlannedModel& model);

}  // namespace hearth
