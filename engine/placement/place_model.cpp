// See the header.
#include "engine/placement/place_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace hearth {
namespace {

/// A solution can exceed the budget only because of rounding, so a few tries with smaller budgets suffice.
constexpr int kTries = 16;

const std::vector<int32_t>* order_of(const PlanInputs& inputs, size_t layer) {
  return inputs.order == nullptr || inputs.order->empty() ? nullptr : &(*inputs.order)[layer];
}

/// Skips the `before` most active neurons (in a mixture, experts) and takes the next n. Returns their
/// numbers in the layout, in ascending order.
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

/// Returns the machine. If it has no GPU, adds a typical GPU.
MachineProfile with_gpu(MachineProfile machine) {
  if (!machine.gpu) machine.gpu = typical_machine().gpu;
  return machine;
}

/// Solves the placement of one model, and solves it again as long as the solution exceeds the budget.
class Placer {
 public:
  Placer(const PlacementFacts& known, const PlanInputs& inputs, size_t budget_bytes)
      : known_(known),
        inputs_(inputs),
        solved_(inputs),
        budget_(budget_bytes),
        activity_(activity()),
        cost_(with_gpu(known.machine)),
        cost_of_bytes_(bytes_only(with_gpu(known.machine))) {}

  /// Returns nullopt if no part of any layer fits or, with by_layers, if no whole layer fits.
  std::optional<Placement> place(bool by_layers, bool streams) {
    const bool order_known = order_of(inputs_, 0) != nullptr;
    solved_.split = by_layers ? DeviceSplit::kLayers : DeviceSplit::kNeurons;
    const ModelFacts facts =
        model_facts(solved_, activity_, order_known || solved_.mode == Sparsity::kDense, known_.assumptions);
    PlacementBudgets budgets{
        .vram_bytes = static_cast<int64_t>(budget_),
        .ram_bytes = known_.ram_bytes > 0 ? known_.ram_bytes : std::numeric_limits<int64_t>::max(),
        .cache = inputs_.prefetch,
        .by_layers = by_layers,
        .streams = streams};
    bool fits_ram = true;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      std::optional<PlacementSolution> solution = solve_placement(facts, cost_, budgets);
      if (!solution) {  // the caller decides whether it loads the model nevertheless
        fits_ram = false;
        budgets.ram_bytes = std::numeric_limits<int64_t>::max();
        solution = solve_placement(facts, cost_, budgets);
      }
      // The CPU alone is faster only if the model is very small. In this case, speed is not the reason for
      // using the GPU, so the GPU gets the parts that save the most reading.
      const bool is_timed = solution && solution->on_gpu;
      if (!is_timed) solution = solve_placement(facts, cost_of_bytes_, budgets);
      if (!solution || !solution->on_gpu) return std::nullopt;
      Placement placement{layer_placements(*solution, inputs_, activity_),
                          static_cast<size_t>(solution->stream_bytes)};
      const size_t taken = device_bytes(inputs_, placement.layers, placement.stream_bytes).total();
      if (taken <= budget_) {
        if (known_.found && is_timed && fits_ram) known_.found(*solution);
        return placement;
      }
      // The excess comes from rounding. A solution for a smaller budget exceeds the smaller budget too, by
      // nearly as many bytes. So the reduction doubles with each try.
      budgets.vram_bytes -= static_cast<int64_t>(taken - budget_) << attempt;
    }
    return std::nullopt;
  }

 private:
  /// Returns the activity, and also sets the mode for which the placement is solved. Calibrated mode reads
  /// all gate and up rows for every token, so it is placed like dense mode. So are mixtures, except that
  /// experts take other bytes in exact mode; their zeros are not counted as saved time.
  ModelActivity activity() {
    if (inputs_.spec.has_experts()) {
      if (solved_.mode != Sparsity::kExact) solved_.mode = Sparsity::kDense;
      const bool known = known_.activity && fits(*known_.activity, inputs_.spec);
      if (known) return *known_.activity;
      return inputs_.prefetch ? exchanged_expert_activity(inputs_.spec) : even_expert_activity(inputs_.spec);
    }
    if (inputs_.mode == Sparsity::kCalibrated) solved_.mode = Sparsity::kDense;
    if (solved_.mode == Sparsity::kDense) return dense_activity(inputs_.spec);
    if (known_.activity) return *known_.activity;
    const std::optional<ActivityLaw> law = known_law(inputs_.spec);
    return law ? law_activity(*law, inputs_.spec) : dense_activity(inputs_.spec);
  }

  const PlacementFacts& known_;
  const PlanInputs& inputs_;
  PlanInputs solved_;  // the inputs that the solver gets
  const size_t budget_;
  const ModelActivity activity_;
  const CostModel cost_, cost_of_bytes_;
};

}  // namespace

CostModel bytes_only(const MachineProfile& machine) {
  GpuCosts costs = gpu_costs(*machine.gpu);
  for (cuda::KernelSpeed& speed : costs.kernels) speed.start_s = 0;
  costs.hand_over_s = costs.step_s = 0;
  return {machine, costs};
}

std::vector<LayerPlacement> layer_placements(const PlacementSolution& solution, const PlanInputs& inputs,
                                             const ModelActivity& activity) {
  std::vector<LayerPlacement> layers(solution.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerOption& option = solution.layers[i];
    layers[i].on_device = option.on_device;
    if (!option.on_device) continue;
    if (inputs.spec.has_experts()) {
      layers[i] = whole_layer(inputs.spec);
      layers[i].experts = hottest(inputs, activity, i, option.n_experts);
      continue;
    }
    layers[i].all_gates = option.all_gates;
    layers[i].hot = hottest(inputs, activity, i, option.n_hot);
    layers[i].n_cache = option.n_cache;
    layers[i].cached = hottest(inputs, activity, i, option.n_there() - option.n_hot, option.n_hot);
  }
  return layers;
}

std::optional<Placement> place_model(const PlacementFacts& facts, const PlanInputs& inputs,
                                     size_t budget_bytes) {
  const bool shares_neurons = inputs.split != DeviceSplit::kLayers && !inputs.spec.has_experts();
  Placer placer(facts, inputs, budget_bytes);
  std::optional<Placement> placement;
  if (inputs.spec.has_experts()) {
    placement = placer.place(inputs.split == DeviceSplit::kLayers, /*streams=*/true);
  } else if (by_layers(inputs.split, inputs.mode)) {
    if (can_stream_layers(inputs)) placement = placer.place(/*by_layers=*/true, /*streams=*/true);
    if (!placement) placement = placer.place(/*by_layers=*/true, /*streams=*/false);
  }
  const auto is_missing = [](const LayerPlacement& layer) { return !layer.on_device; };
  if (placement && inputs.spec.stays_whole() && std::ranges::any_of(placement->layers, is_missing))
    placement.reset();
  if (!placement && shares_neurons) placement = placer.place(/*by_layers=*/false, /*streams=*/true);
  // The solver rounds up, so it may find no solution for a budget in which the smallest placement just fits.
  if (!placement && least_bytes(inputs) <= budget_bytes) placement = least_placement(inputs);
  return placement;
}

}  // namespace hearth
