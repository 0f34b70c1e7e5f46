// Decides which parts of a model a GPU gets. No other code decides this. If the machine was not measured or
// activity was not counted, the solver (engine/placement/solver.h) works with typical values.
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

/// Returns the fastest placement in which the GPU has at least a part of one layer, and for which
/// device_bytes() is at most budget_bytes. If the CPU alone would be faster (for models of a few million
/// weights), returns the placement that would be fastest if only the reading of bytes took time. Returns
/// nullopt if the budget is below least_bytes(inputs).
///
/// If by_layers() is true, the GPU gets only whole layers, provided that at least one fits. For a mixture of
/// experts, the GPU gets whole layers without their experts. If experts on the GPU save time, it also gets as
/// many of them as fit, the most chosen experts first. With DeviceSplit::kLayers, the GPU gets either all of
/// a layer's experts or none.
std::optional<Placement> place_model(const PlacementFacts& facts, const PlanInputs& inputs,
                                     size_t budget_bytes);

/// Returns the costs of a machine on which kernels, hand-overs and calls take no time, so that only bytes
/// count. REQUIRES: the machine has a GPU.
CostModel bytes_only(const MachineProfile& machine);

/// Converts the solution to the engine's form, which lists the numbers of each layer's hottest neurons or
/// experts. Neurons are numbered in the layout's order.
std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity);

}  // namespace hearth
