// Connects the solver to the engine: LoadOptions::choose_placement is answered by solving for the model that is being
// loaded.
//
// The engine counts exactly what a placement takes (engine/residency/plan.h, device_bytes). The solver rounds;
// where the exact count exceeds the budget, the placement is solved again for a budget smaller by the excess.
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
#include "engine/residency/plan.h"
#include "profiler/machine/machine_profile.h"
#include "profiler/placement/known_activity.h"
#include "profiler/placement/solver.h"

namespace hearth {

struct SolvedPlacement {
  MachineProfile machine;
  /// Of the model that is loaded, neurons as its file numbers them; nullopt: what is known of its kind, for
  /// neurons in the layout's order.
  std::optional<ModelActivity> activity;
  int64_t ram_bytes = 0;  // budget; 0: not looked at
  PlacementAssumptions assumptions;
  /// Told what was found, on the loading thread; may be empty.
  std::function<void(const PlacementSolution& solution)> found;
};

/// For LoadOptions::choose_placement. nullopt, for the neutral plan: the machine has no GPU, the budgets hold no
/// placement, or the CPU alone would be faster.
std::optional<Placement> solve_for(const SolvedPlacement& how, const PlanInputs& inputs, size_t budget_bytes);

/// A solution as the engine takes it: the hottest neurons of each layer by their numbers in the layout.
std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity);

/// What the solver found, on the loading thread.
using PlacementFound = std::function<void(const PlacementSolution& solution)>;

/// For LoadOptions::choose_placement. activity: nullopt: not counted; then what is known of the model's kind is taken.
std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_placement(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found);

/// This machine's profile as the cache has it; nullopt: it was not measured yet. Measures nothing.
std::optional<MachineProfile> kept_machine(const Environment& environment);

}  // namespace hearth
