// The door from the solver to the engine: LoadOptions::place, answered by solving for what is being loaded.
//
// The engine counts what the answer takes, to the byte (engine/residency/plan.h, device_bytes); where that is more than
// the budget, for the solver rounds, it is solved again for as much less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/residency/plan.h"
#include "profiler/machine/machine_profile.h"
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

/// For LoadOptions::place. nullopt, for the neutral plan: the machine has no GPU, the budgets hold no
/// placement, or the CPU alone would be faster.
std::optional<Placement> solve_for(const SolvedPlacement& how, const PlanInputs& inputs, size_t budget_bytes);

/// A solution as the engine takes it: the hottest neurons of each layer by their numbers in the layout.
std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity);

}  // namespace hearth
