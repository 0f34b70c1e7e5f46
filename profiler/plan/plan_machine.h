// The machine of a plan, and what of the plan's load follows from it.
//
// Called by hearth-profiler plan and hearthd show.
#pragma once

#include <string>

#include "profiler/plan/plan_answer.h"

namespace hearth {

/// Sets the question's machine; a GPU that cannot multiply the model's weights is left out of it. Where the load leaves it
/// open, sets what loading the model on this machine would choose (the step of prompts). Returns why the GPU was left out,
/// as half a sentence; empty: it was not.
std::string set_machine(PlanQuestion& question, MachineProfile machine);

}  // namespace hearth
