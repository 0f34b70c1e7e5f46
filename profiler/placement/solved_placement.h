// Connects the solver to the engine: answers LoadOptions::choose_placement by solving for the model that is
// being loaded.
//
// The engine counts exactly what a placement takes (engine/residency/plan.h, device_bytes). The solver
// rounds; if the exact count exceeds the budget, the placement is solved again for a smaller budget.
//
// Called on the thread that loads the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "config/environment.h"
#include "engine/model_runtime.h"
#include "engine/placement/machine_profile.h"
#include "engine/placement/solver.h"
#include "engine/residency/plan.h"
#include "profiler/placement/known_activity.h"

namespace hearth {

struct SolvedPlacement {
  MachineProfile machine;
  /// The activity of the model that is loaded, with neurons numbered as in its file. nullopt: use the law for
  /// models of its kind, with neurons in the layout's order.
  std::optional<ModelActivity> activity;
  int64_t ram_bytes = 0;  // budget; 0: no limit
  PlacementAssumptions assumptions;
  /// Called with the solution, on the loading thread; may be empty.
  std::function<void(const PlacementSolution& solution)> found;
};

/// Answers LoadOptions::choose_placement. Returns nullopt, which asks for the neutral plan, if the machine
/// has no GPU, the budgets hold no placement, the CPU alone would be faster, or the model is a mixture of
/// experts.
std::optional<Placement> solve_for(const SolvedPlacement& how, const PlanInputs& inputs, size_t budget_bytes);

/// The solution in the engine's form: the hottest neurons of each layer, by their numbers in the layout.
std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity);

/// Called with the solution, on the loading thread.
using PlacementFound = std::function<void(const PlacementSolution& solution)>;

/// Returns a function for LoadOptions::choose_placement. activity: nullopt if it was not counted; then the
/// law for models of this kind is used.
std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_placement(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found);

/// The rates of prompts on a machine with a GPU. Without a GPU they are unknown.
PromptRates prompt_rates(const MachineProfile& machine);

/// This machine's profile from the cache folder, or nullopt if it was not measured yet. Measures nothing.
std::optional<MachineProfile> kept_machine(const Environment& environment);

}  // namespace hearth
