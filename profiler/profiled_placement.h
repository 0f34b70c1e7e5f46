// From what is known of a machine and a model to what the model is placed by.
#pragma once

#include <functional>
#include <optional>

#include "config/environment.h"
#include "engine/model_runtime.h"
#include "profiler/machine/machine_profile.h"
#include "profiler/placement/known_activity.h"
#include "profiler/placement/solver.h"

namespace hearth {

/// What the solver found, on the loading thread.
using PlacementFound = std::function<void(const PlacementSolution& solution)>;

/// For LoadOptions::place. activity: nullopt: not counted; then what is known of the model's kind is taken.
std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_place(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found);

/// This machine's profile as the cache has it; nullopt: it was not measured yet. Measures nothing.
std::optional<MachineProfile> kept_machine(const Environment& environment);

}  // namespace hearth
