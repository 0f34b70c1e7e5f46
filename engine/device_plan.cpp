// See the header.
#include "engine/device_plan.h"

#include <utility>
#include <vector>

#include "engine/forward/nextn_on_device.h"
#include "engine/placement/place_model.h"
#include "engine/residency/memory_limit.h"

namespace hearth {
namespace {

std::optional<Plan> plan_with(const LoadOptions& options, const PlanInputs& inputs, size_t budget) {
  std::optional<Placement> placement = options.choose_placement
                                           ? options.choose_placement(inputs, budget)
                                           : place_model(options.placement, inputs, budget);
  if (!placement) return std::nullopt;
  return placed_plan(inputs, *std::move(placement), budget);
}

/// The parts of the layer that the device may get besides nothing, the largest first.
std::vector<NextnShare> shares_of(const PlanInputs& inputs) {
  if (inputs.nextn == nullptr) return {};
  if (!inputs.nextn->spec.has_experts()) return {NextnShare::kWhole};
  if (!inputs.experts || !why_not_nextn_experts(*inputs.nextn).empty()) return {NextnShare::kAllButExperts};
  return {NextnShare::kWhole, NextnShare::kAllButExperts};
}

}  // namespace

std::optional<Plan> plan_device(const LoadOptions& options, PlanInputs& inputs, size_t budget) {
  for (const NextnShare share : shares_of(inputs)) {
    inputs.nextn_share = share;
    if (!options.choose_placement && least_bytes(inputs) > budget) continue;
    std::optional<Plan> plan = plan_with(options, inputs, budget);
    if (!plan || plan->device.total() > budget) continue;
    // Experts of the model are used in every step, those of the layer only for drafts.
    if (share == NextnShare::kWhole && inputs.nextn->spec.has_experts() && !plan->is_complete()) continue;
    return plan;
  }
  inputs.nextn_share = NextnShare::kNone;
  return plan_with(options, inputs, budget);
}

std::string why_no_plan(const PlanInputs& inputs, size_t budget) {
  const bool whole = inputs.spec.stays_whole();
  return "The GPU's budget of " + bytes_text(static_cast<double>(budget)) +
         " is too small for any part of the model: scratch, output, " +
         (whole ? "all layers" : "one layer's attention") + " and the KV cache need " +
         bytes_text(static_cast<double>(least_bytes(inputs))) +
         "; give more (--vram-budget), take a smaller context or fewer contexts (--kv-contexts), or "
         "--device cpu.";
}

std::string nextn_note(const PlanInputs& inputs, const Plan& plan) {
  if (inputs.nextn == nullptr || plan.nextn_share == NextnShare::kWhole) return {};
  const int first = inputs.spec.n_layers, n_heads = inputs.nextn->n_heads();
  const std::string layer = n_heads == 1
                                ? "layer " + std::to_string(first) + ", which predicts later tokens"
                                : "layers " + std::to_string(first) + " to " +
                                      std::to_string(first + n_heads - 1) + ", which predict later tokens";
  const std::string budget = "the GPU's budget of " + bytes_text(static_cast<double>(plan.budget_bytes));
  if (plan.nextn_share == NextnShare::kNone)
    return "the CPU computes " + layer + ": " + budget + " has no room for it";
  const std::string why = inputs.experts ? why_not_nextn_experts(*inputs.nextn) : "experts stay on the CPU";
  return "the CPU computes the experts of " + layer + ": " +
         (why.empty() ? budget + " has no room for them beside those of the model" : why);
}

}  // namespace hearth
