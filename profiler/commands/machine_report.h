// A machine's profile, for people and for programs.
#pragma once

#include <string>

#include "profiler/machine/known_machine.h"

namespace hearth {

/// Some lines, each of which a newline ends.
std::string machine_text(const MachineProfile& machine);

/// One JSON object: the keys of the TOML file, and "measured_now" and "file" (null: it is kept nowhere).
std::string machine_json(const KnownMachine& known);

}  // namespace hearth
