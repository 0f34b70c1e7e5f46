// From what is known of a machine and a model to what the model is placed by.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "engine/model_runtime.h"
#include "profiler/machine/machine_profile.h"
#include "profiler/placement/solver.h"

namespace hearth {

/// With fewer tokens counted, which neurons are hot is a matter of chance, and what is known of models of the
/// kind says more.
inline constexpr uint64_t kLeastTokens = 32;

/// What the solver found, on the loading thread.
using PlacementFound = std::function<void(const PlacementSolution& solution)>;

/// For LoadOptions::place. activity: nullopt: not counted; then what is known of the model's kind is taken.
std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_place(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found);

/// This machine's profile as the cache has it; nullopt: it was not measured yet. Measures nothing.
std::optional<MachineProfile> kept_machine(const Environment& environment);

/// The model's activity, if the file is there, sound and the model's.
std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model);

}  // namespace hearth
