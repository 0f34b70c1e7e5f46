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
/// Returns a phrase that names the type of the KV cache, for the end of a clause in plan_lines(). Empty
/// for kF16.
std::string kv_words(KvType type);
/// Formats the lines of plan_lines() or mixture_lines() for a terminal.
std::string lines_text(const std::vector<std::pair<std::string, std::string>>& lines);
/// Describes the load. Example: "4 slots of 4096 tokens each, with a KV cache for 2 at once", if only two
/// contexts fit in memory at the same time.
std::string slots_text(const PlanLoad& load, int n_kv_contexts);
/// Return a phrase for people about the part of the work that takes the longest: decode_bound() for a decoded
/// token, prefill_bound() for a prompt.
std::string decode_bound(const PlacementSolution& solution);
std::string prefill_bound(const PlacementSolution& solution);

/// Returns the answer as a few lines for a terminal.
std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer);
/// Returns the answer as one JSON object.
std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer);

/// Returns the number of contexts whose keys and values are in memory at the same time. If the load leaves
/// this number to the planner, adds as many contexts as fit in the memory that the solution leaves free, by
/// the rule that the engine uses (kKvContextsDecided), and adds their bytes to the solution's bytes. `inputs`
/// and `activity`: the inputs from which the solution was computed.
int add_contexts(PlacementSolution& solution, const PlanInputs& inputs, const ModelActivity& activity,
                 const PlanLoad& load, int64_t vram_bytes, int64_t ram_bytes);

/// Return the default budget for a memory of this size, both in bytes. usable_vram(): the budget that the
/// engine would use on a GPU without other programs. usable_ram(): all memory except a share for the system
/// and other programs.
int64_t usable_vram(int64_t vram_bytes);
int64_t usable_ram(int64_t ram_bytes);

}  // namespace hearth
