// See the header.
#include "profiler/placement/solved_placement.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "profiler/machine/known_machine.h"

namespace hearth {
namespace {

/// Solutions exceed the budget, if at all, by rounding some pieces; a few smaller budgets suffice.
constexpr int kTries = 8;

const std::vector<int32_t>* order_of(const PlanInputs& inputs, size_t layer) {
  return inputs.order == nullptr || inputs.order->empty() ? nullptr : &(*inputs.order)[layer];
}

/// The n most active neurons after the first `before`, by their numbers in the layout, in ascending order.
std::vector<int32_t> hottest(const PlanInputs& inputs, const ModelActivity& activity, size_t layer, int64_t n,
                             int64_t before = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  if (activity.hottest.empty()) {
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(before));
    return ids;
  }
  std::copy_n(activity.hottest[layer].begin() + before, n, ids.begin());
  if (const std::vector<int32_t>* order = order_of(inputs, layer)) {
    std::vector<int32_t> place(order->size());
    for (size_t j = 0; j < order->size(); ++j)
      place[static_cast<size_t>((*order)[j])] = static_cast<int32_t>(j);
    for (int32_t& id : ids) id = place[static_cast<size_t>(id)];
  }
  std::ranges::sort(ids);
  return ids;
}

ModelActivity known_activity(const PlanInputs& inputs) {
  const std::optional<ActivityLaw> law = known_law(inputs.spec);
  return law && inputs.mode != Sparsity::kDense ? law_activity(*law, inputs.spec)
                                                : dense_activity(inputs.spec);
}

}  // namespace

std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity) {
  std::vector<LayerPlacement> layers(solution.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerOption& option = solution.layers[i];
    layers[i].on_device = option.on_device;
    if (!option.on_device) continue;
    layers[i].all_gates = option.all_gates;
    layers[i].hot = hottest(inputs, activity, i, option.n_hot);
    layers[i].n_cache = option.n_cache;
    layers[i].cached = hottest(inputs, activity, i, option.n_there() - option.n_hot, option.n_hot);
  }
  return layers;
}

std::optional<Placement> solve_for(const SolvedPlacement& how, const PlanInputs& inputs,
                                   size_t budget_bytes) {
  if (!how.machine.gpu || inputs.spec.has_experts()) return std::nullopt;
  // Calibrated mode reads all gates and ups for every token, so it is placed like dense mode.
  PlanInputs solved = inputs;
  if (inputs.mode == Sparsity::kCalibrated) solved.mode = Sparsity::kDense;
  const bool counted = how.activity && solved.mode != Sparsity::kDense;
  const ModelActivity activity = counted ? *how.activity : known_activity(solved);
  const bool order_known = order_of(inputs, 0) != nullptr;
  const ModelFacts facts =
      model_facts(solved, activity, order_known || solved.mode == Sparsity::kDense, how.assumptions);
  const CostModel cost(how.machine);
  PlacementBudgets budgets{
      .vram_bytes = static_cast<int64_t>(budget_bytes),
      .ram_bytes = how.ram_bytes > 0 ? how.ram_bytes : std::numeric_limits<int64_t>::max(),
      .cache = inputs.prefetch,
      .by_layers = by_layers(inputs.split, inputs.mode)};
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::optional<PlacementSolution> solution = solve_placement(facts, cost, budgets);
    if (!solution || !solution->on_gpu) return std::nullopt;
    Placement placement{layer_placements(*solution, inputs, activity),
                        static_cast<size_t>(solution->stream_bytes)};
    const size_t taken = device_bytes(inputs, placement.layers, placement.stream_bytes).total();
    if (taken <= budget_bytes) {
      if (how.found) how.found(*solution);
      return placement;
    }
    // The excess is rounding, and a solution for a smaller budget has nearly as much of it, so the reduction
    // doubles with each try.
    budgets.vram_bytes -= static_cast<int64_t>(taken - budget_bytes) << attempt;
  }
  return std::nullopt;
}

std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_placement(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found) {
  SolvedPlacement how;
  how.machine = machine;
  if (activity) how.activity = model_activity(*activity);
  how.found = std::move(found);
  return [how = std::move(how)](const PlanInputs& inputs, size_t budget_bytes) {
    return solve_for(how, inputs, budget_bytes);
  };
}

PromptRates prompt_rates(const MachineProfile& machine) {
  if (!machine.gpu) return {};
  return {.to_device_bytes_per_s = machine.gpu->to_device_pinned_bytes_per_s,
          .multiply_adds_per_s = machine.gpu->multiply_adds_per_s,
          .cpu_multiply_adds_per_s = machine.host.multiply_adds_per_s};
}

std::optional<MachineProfile> kept_machine(const Environment& environment) {
  const std::optional<KnownMachine> known = known_machine(environment, hardware_here(), /*fresh=*/false,
                                                          [](const Hardware&) { return std::nullopt; });
  return known ? std::optional(known->machine) : std::nullopt;
}

}  // namespace hearth
