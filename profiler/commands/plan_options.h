// What the subcommands that plan a placement ask for: the machine, its budgets, how much runs at once, and how
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
      nullptr;  // whether a mode was asked for; else all that the model has are compared
};

/// Adds them, and from the table of options the budgets, what is to run at once, and the mode. Both must outlive
/// the parsing.
void add_plan_options(CLI::App& command, PlanOptions& plan, Options& options);

/// What is to be planned, of a model that outlives the question, but for machine and activity. Throws
/// std::runtime_error, one sentence for options that do not fit the model.
PlanQuestion plan_question(const PlanOptions& plan, const Options& options, const PlannedModel& model);

/// Adds the machine that is named, or the one that this runs on, measured if it was not yet: with progress on
/// the terminal. Throws std::runtime_error: there is no such machine, or it does not have what a budget is
/// for.
void add_machine(const PlanOptions& options, PlanQuestion& question);

/// In the file that --activity names, of hearth-profiler count or CSV; else what is kept of the model, or
/// lies beside its file. Says on the terminal what was found beside it. Throws std::runtime_error for a named
/// file that is no such one or is another model's.
KnownCounts find_counts(const PlanOptions& options, const PlannedModel& model);

}  // namespace hearth
