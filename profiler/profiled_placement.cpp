// See the header.
#include "profiler/profiled_placement.h"

#include <utility>

#include "profiler/machine/known_machine.h"
#include "profiler/placement/solved_placement.h"

namespace hearth {

std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> profiled_place(
    const MachineProfile& machine, const std::optional<Activity>& activity, PlacementFound found) {
  SolvedPlacement how;
  how.machine = machine;
  if (activity) how.activity = model_activity(*activity);
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

}  // namespace hearth
