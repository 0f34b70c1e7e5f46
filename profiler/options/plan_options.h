// Defines the options of subcommands that plan a placement: the machine, its budgets, the load, and the
// activity of the model's neurons.
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
  /// Shows whether the user gave a mode. If not, all modes of the model are compared.
  const CLI::Option* sparsity = nullptr;
};

/// Adds the options that only plans have. Also adds the general options for budgets, load and sparsity mode.
/// `plan` and `options` must outlive the parsing.
void add_plan_options(CLI::App& command, PlanOptions& plan, Options& options);

/// Returns the question for the planner. The caller must still set the question's machine and activity. The
/// model must outlive the question. Throws std::runtime_error (one sentence) if options do not fit the model.
PlanQuestion plan_question(const PlanOptions& plan, const Options& options, const PlannedModel& model);

/// Adds a machine to the question: the machine that the options name, or this machine if they name none. If
/// this machine was not measured before, measures it and shows progress on the terminal. Throws
/// std::runtime_error if the named machine does not exist, or if a VRAM budget is given and the machine has
/// no usable GPU.
void add_machine(const PlanOptions& options, PlanQuestion& question);

/// Says on standard error if other programs slow this machine down now. machine: this machine's profile.
void warn_if_busy(const MachineProfile& machine);

/// Returns the activity in the file that --activity names, which is a CSV file or a file of hearth-profiler
/// count. Without this option, returns the activity in the cache folder or in a file beside the model, and
/// prints notes about faulty files and about PowerInfer's index to stderr. Throws std::runtime_error if the
/// named file is not an activity file, belongs to another model, or counts fewer than kLeastTokens tokens.
KnownCounts find_counts(const PlanOptions& options, const PlannedModel& model);

}  // namespace hearth
