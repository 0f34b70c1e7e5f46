// Plans the device's share of a model, and of the layer that predicts later tokens if the model drafts with
// it.
//
// ModelRuntime calls it on the loading thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "engine/load_options.h"
#include "engine/residency/plan.h"

namespace hearth {

/// Returns the plan of the placement within this budget, by LoadOptions::choose_placement or place_model().
/// The device gets the layer that predicts later tokens too (`inputs.nextn`): with its experts if the plan
/// then still is complete, else without them, or nothing of it if the budget is too small for the rest. Sets
/// inputs.nextn_share to this part. Returns nullopt if the budget holds nothing of the model.
std::optional<Plan> plan_device(const LoadOptions& options, PlanInputs& inputs, size_t budget);

/// Returns the sentence that says why there is no plan within this budget.
std::string why_no_plan(const PlanInputs& inputs, size_t budget);

/// Returns a sentence for the log about the part of the layer that the CPU computes although a device has a
/// share of the model. Empty if there is no such part, or no layer that drafts.
std::string nextn_note(const PlanInputs& inputs, const Plan& plan);

}  // namespace hearth
