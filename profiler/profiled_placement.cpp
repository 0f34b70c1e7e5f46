// See the header.
#include "profiler/profiled_placement.h"

#include <exception>
#include <system_error>
#include <utility>

#include "profiler/machine/known_machine.h"
#include "profiler/placement/solved_placement.h"

namespace hearth {
namespace {

std::optional<ModelActivity> model_activity(const std::optional<Activity>& activity) {
  if (!activity || activity->n_tokens() < kLeastTokens) return std::nullopt;
  const ActivityCounts total = activity->total();
  double active = 0;
  for (int layer = 0; layer < total.n_layers; ++layer) active += total.active_share(layer) / total.n_layers;
  return counted_activity(activity->profile(), static_cast<double>(total.n_tokens), active,
                          std::to_string(total.n_tokens) + " tokens counted");
}

}  // namespace

std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_place(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found) {
  SolvedPlacement how;
  how.machine = machine;
  how.activity = model_activity(activity);
  how.found = std::move(found);
  return [how = std::move(how)](const PlanInputs& inputs, size_t budget_bytes) {
    return solve_for(how, inputs, budget_bytes);
  };
}

std::optional<MachineProfile> kept_machine(const Environment& environment) {
  const std::optional<KnownMachine> known = known_machine(environment, hardware_here(), /*fresh=*/false,
                                                          [](const Hardware&) { return std::nullopt; });
  return known ? std::optional(known->machine) : std::nullopt;
}

std::optional<Activity> kept_activity(const std::filesystem::path& file, const ModelIdentity& model) try {
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return std::nullopt;
  Activity activity = read_activity(file);
  if (!activity.model.same_model(model)) return std::nullopt;
  return activity;
} catch (const std::exception&) {
  return std::nullopt;  // what is wrong with it is told by who replaces it
}

}  // namespace hearth
