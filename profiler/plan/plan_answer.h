// What a model would do on a machine: the best placement over the modes it has, how fast that is by the cost
// model, and what would make it faster, each found by solving again.
//
// Asked by hearth-profiler plan; weights are not read. Predictions: nothing here was measured with the model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiler/machine/machine_profile.h"
#include "profiler/placement/solver.h"
#include "profiler/plan/planned_model.h"

namespace hearth {

struct PlanQuestion {
  const PlannedModel& model;
  MachineProfile machine;
  std::optional<int64_t> vram_bytes, ram_bytes;  // budgets; nullopt: what such a machine has free
  PlanLoad load;
  std::vector<Sparsity> modes;  // empty: all that the model has
  /// Of the sparse modes; nullopt: the law of its kind.
  std::optional<ModelActivity> activity;
  std::optional<double> active;  // share of neurons, instead of the law's
  PlacementAssumptions assumptions;
};

/// A change, and the decoding speed with it.
struct PlanHelp {
  std::string what;  // "RAM of 100.8 GB/s instead of 67.2"
  double tokens_per_s = 0;
};

struct PlanAnswer {
  PlacementSolution best;
  std::vector<PlacementSolution> others;  // of the other modes, the fastest first
  int64_t vram_budget = 0, ram_budget = 0;
  ModelActivity activity;       // that `best` was solved for
  std::vector<PlanHelp> helps;  // the one that helps most first; only what helps by 1 % or more
};

/// Throws std::runtime_error, a sentence with the least that would do, where the budgets do not hold the
/// model.
PlanAnswer answer_plan(const PlanQuestion& question);

/// What it says, line by line: a name, empty where the line before goes on, and a sentence or two.
std::vector<std::pair<std::string, std::string>> plan_lines(const PlanQuestion& question,
                                                            const PlanAnswer& answer);
/// What a decoded token of it waits for most, and what a prompt's.
std::string decode_bound(const PlacementSolution& solution);
std::string prefill_bound(const PlacementSolution& solution);

/// For a terminal, some lines.
std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer);
/// One JSON object.
std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer);

/// What a budget of "auto" takes of so much memory: the engine's own rule for a GPU that nobody else uses,
/// and RAM less what a system needs.
int64_t usable_vram(int64_t vram_bytes);
int64_t usable_ram(int64_t ram_bytes);

}  // namespace hearth
