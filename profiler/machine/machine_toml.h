// Converts machine profiles (engine/placement/machine_profile.h) to TOML and back. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "engine/placement/machine_profile.h"

namespace hearth {

/// Parses a profile in TOML. `origin` names it in messages, for example by a path. Throws std::runtime_error
/// (one sentence with the origin, the line, what was found and what was expected) if the text is not TOML, if
/// keys are missing, unknown or of a wrong type, or if a figure is impossible for a machine (not finite, or
/// in a wrong unit).
MachineProfile parse_machine(std::string_view toml, const std::string& origin);

/// Like parse_machine(), for a file. Also throws if the file cannot be read or is larger than 1 MiB.
MachineProfile read_machine(const std::string& path);

/// Returns TOML from which parse_machine() reads the same profile, bit for bit.
std::string machine_toml(const MachineProfile& machine);

}  // namespace hearth
