// Decides which parts of a model a GPU gets. Nothing else in Hearth decides this: where the machine was not
// measured or activity was not counted, the solver (engine/placement/solver.h) works with typical values.
//
// The engine counts exactly the bytes that a placement takes (engine/residency/plan.h, device_bytes). The
// solver rounds; if the exact count exceeds the budget, the placement is solved again for a smaller budget.
//
// Called while a model is loaded or its load is simulated. Deterministic; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/placement/placement_facts.h"
#include "engine/placement/solver.h"
#include "engine/residency/plan.h"

namespace hearth {

/// The fastest placement in which the GPU has at least a part of one layer, and for which device_bytes() is
/// at most budget_bytes. If the CPU alone would be faster (models of a few million weights), the placement
/// with the least bytes to read, weighted by their rates. nullopt: the budget is below least_bytes(inputs).
///
/// If by_layers(), the GPU gets whole layers only, as long as at least one fits. For a mixture of experts, it
/// gets whole layers without their experts, then as many experts as fit, the most chosen first, where they
/// save time; with DeviceSplit::kLayers, all of a layer's experts or none.
std::optional<Placement> place_model(const PlacementFacts& facts, const PlanInputs& inputs,
                                     size_t budget_bytes);

/// Costs of a machine whose kernels, hand-overs and calls take no time, so that only bytes count. REQUIRES:
/// it has a GPU.
CostModel bytes_only(const MachineProfile& machine);

/// The solution in the engine's form: the hottest neurons or experts of each layer, neurons by their numbers
/// in the layout.
std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity);

}  // namespace hearth
