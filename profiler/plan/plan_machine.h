// Sets the machine of a plan, and the parts of the plan's load that depend on the machine.
//
// Called by hearth-profiler plan and hearthd show.
#pragma once

#include <string>

#include "profiler/plan/plan_answer.h"

namespace hearth {

/// Sets the question's machine. Omits the machine's GPU if it cannot multiply the model's weights. If the
/// load does not state the number of prompt tokens per step, sets the number that the engine would choose
/// when it loads the model on this machine. Returns the reason as half a sentence if the GPU was omitted,
/// otherwise an empty string.
std::string set_machine(PlanQuestion& question, MachineProfile machine);

}  // namespace hearth
