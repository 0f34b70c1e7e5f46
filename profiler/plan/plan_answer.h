// Predicts how a model would run on a machine: the best placement over all sparsity modes, its speed
// according to the cost model, and changes that would make it faster. Each change is found by solving again.
//
// Called by hearth-profiler plan; reads no weights. All figures are predictions; none is measured with the
// model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/placement/machine_profile.h"
#include "engine/placement/solver.h"
#include "profiler/plan/planned_model.h"

namespace hearth {

struct PlanQuestion {
  const PlannedModel& model;
  MachineProfile machine;
  std::optional<int64_t> vram_bytes, ram_bytes;  // budgets; nullopt: the memory that is usually free
  PlanLoad load;
  std::vector<Sparsity> modes;  // empty: all modes of the model
  /// The neurons' activity, for the sparse modes; nullopt: use the published activity of similar models
  /// (known_law()).
  std::optional<ModelActivity> activity;
  std::optional<double> active;  // share of neurons that are active; nullopt: use known_law()'s share
  PlacementAssumptions assumptions;
};

/// A change to the machine or the model, and the decoding speed after the change.
struct PlanHelp {
  std::string what;  // "RAM of 100.8 GB/s instead of 67.2"
  double tokens_per_s = 0;
};

struct PlanAnswer {
  PlacementSolution best;
  std::vector<PlacementSolution> others;  // best plan of each mode that `best` does not use, fastest first
  int64_t vram_budget = 0, ram_budget = 0;
  int n_kv_contexts = 0;        // number of contexts that fit; `best` includes their bytes
  ModelActivity activity;       // the activity that `best` was solved for
  std::vector<PlanHelp> helps;  // changes that gain at least 1 %, the most helpful first
};

/// Answers the question. Throws std::runtime_error if the model does not fit the budgets; its message is one
/// sentence with the smallest budget that would suffice.
PlanAnswer answer_plan(const PlanQuestion& question);

/// Returns the answer as lines. Each has a name (empty if the line continues the previous one) and a sentence
/// or two.
std::vector<std::pair<std::string, std::string>> plan_lines(const PlanQuestion& question,
                                                            const PlanAnswer& answer);
/// Returns a phrase that names the type of keys and values, for the end of a clause in plan_lines(). Empty
/// for kF16.
std::string kv_words(KvType type);
/// Formats such lines, of plan_lines() or mixture_lines(), for a terminal.
std::string lines_text(const std::vector<std::pair<std::string, std::string>>& lines);
/// Returns, for example, "4 slots of 4096 tokens each, with keys and values of 2 at once".
std::string slots_text(const PlanLoad& load, int n_kv_contexts);
/// Names the part of the work that a decoded token (or a prompt) waits for most, for people.
std::string decode_bound(const PlacementSolution& solution);
std::string prefill_bound(const PlacementSolution& solution);

/// Returns the answer as a few lines for a terminal.
std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer);
/// Returns the answer as one JSON object.
std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer);

/// Adds contexts by the engine's rule, until their keys and values fill the memory that the budgets leave
/// free. Adds their bytes to the solution's bytes. `inputs` and `activity` are those that the solution was
/// found for. Returns the number of contexts that fit.
int add_contexts(PlacementSolution& solution, const PlanInputs& inputs, const ModelActivity& activity,
                 const PlanLoad& load, int64_t vram_bytes, int64_t ram_bytes);

/// Return the budget in bytes for a memory of this size if the user gives none. VRAM: by the engine's rule,
/// for a GPU that no other program uses. RAM: all memory except what the system needs.
int64_t usable_vram(int64_t vram_bytes);
int64_t usable_ram(int64_t ram_bytes);

}  // namespace hearth
