// Machine profiles (engine/placement/machine_profile.h) as TOML, both ways. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "engine/placement/machine_profile.h"

namespace hearth {

/// Parses a profile in TOML. origin: its name in messages, a path. Throws std::runtime_error (one sentence
/// with origin, line, what was found and what is expected) if the text is not TOML, if keys are missing,
/// unknown or of another type, and for figures that no machine has (not finite, or off by a unit).
MachineProfile parse_machine(std::string_view toml, const std::string& origin);

/// Like parse_machine(), for a file. Also throws if it cannot be read or is over 1 MiB.
MachineProfile read_machine(const std::string& path);

/// TOML that parse_machine reads as the same profile, bit for bit.
std::string machine_toml(const MachineProfile& machine);

}  // namespace hearth
