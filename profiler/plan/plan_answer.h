// What a model would do on a machine: the best placement over the modes it has, its speed by the cost model,
// and changes that would make it faster, each found by solving again.
//
// Called by hearth-profiler plan; reads no weights. All figures are predictions, none was measured with the
// model.
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
  std::optional<int64_t> vram_bytes, ram_bytes;  // budgets; nullopt: what such a machine usually has free
  PlanLoad load;
  std::vector<Sparsity> modes;  // empty: all that the model has
  /// for the sparse modes; nullopt: the law of the model's kind
  std::optional<ModelActivity> activity;
  std::optional<double> active;  // share of neurons that is active, instead of the law's
  PlacementAssumptions assumptions;
};

/// A change to the machine or the model, and the decoding speed with it.
struct PlanHelp {
  std::string what;  // "RAM of 100.8 GB/s instead of 67.2"
  double tokens_per_s = 0;
};

struct PlanAnswer {
  PlacementSolution best;
  std::vector<PlacementSolution> others;  // those of the other modes, the fastest first
  int64_t vram_budget = 0, ram_budget = 0;
  int n_kv_contexts = 0;        // with `best`, whose bytes include their keys and values
  ModelActivity activity;       // the activity that `best` was solved for
  std::vector<PlanHelp> helps;  // the most helpful first; changes that help by less than 1 % are left out
};

/// Throws std::runtime_error if the budgets do not hold the model: one sentence with the least that would.
PlanAnswer answer_plan(const PlanQuestion& question);

/// The answer line by line: a name (empty if the line before goes on), and a sentence or two.
std::vector<std::pair<std::string, std::string>> plan_lines(const PlanQuestion& question,
                                                            const PlanAnswer& answer);
/// What such lines say of the type of keys and values, after a clause; empty for halves.
std::string kv_words(KvType type);
/// Such lines for a terminal.
std::string lines_text(const std::vector<std::pair<std::string, std::string>>& lines);
/// "4 slots of 4096 tokens each, with keys and values of 2 at once".
std::string slots_text(const PlanLoad& load, int n_kv_contexts);
/// What decoding a token waits for most, and what a prompt waits for most.
std::string decode_bound(const PlacementSolution& solution);
std::string prefill_bound(const PlacementSolution& solution);

/// A few lines for a terminal.
std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer);
/// One JSON object.
std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer);

/// How much of this memory the budget "auto" takes: the engine's own rule for a GPU that nobody else uses,
/// and RAM without what the system needs.
int64_t usable_vram(int64_t vram_bytes);
int64_t usable_ram(int64_t ram_bytes);

}  // namespace hearth
