// Sets the machine of a plan, and the parts of the plan's load that follow from it.
//
// Called by hearth-profiler plan and hearthd show.
#pragma once

#include <string>

#include "profiler/plan/plan_answer.h"

namespace hearth {

/// Sets the question's machine, without a GPU that cannot multiply the model's weights. If the load leaves
/// the number of prompt tokens of a step open, sets the number that loading the model on this machine would
/// choose. Returns the reason if the GPU was left out, as half a sentence; otherwise an empty string.
std::string set_machine(PlanQuestion& question, MachineProfile machine);

}  // namespace hearth
