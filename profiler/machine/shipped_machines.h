// Provides profiles of well-known machines, for plans on a machine that the user does not have.
//
// The profiles are TOML files in profiler/machine/machines, which state a source for each figure. The build
// embeds them in the program. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/placement/machine_profile.h"

namespace hearth {

struct ShippedMachine {
  std::string_view name;  // the name that users give: "rtx4090"
  std::string_view toml;
};

/// All shipped machines, in the order in which they are shown.
const std::vector<ShippedMachine>& shipped_machines();

/// "rtx4090, rtx3090, ...", for help and messages.
std::string shipped_machine_names();

/// The profile of this name, or nullopt if none is shipped.
std::optional<MachineProfile> shipped_machine(std::string_view name);

/// Returns the machine that `--machine` names: a shipped machine, or else the machine in a file. Throws like
/// read_machine(). If `name_or_path` is neither a shipped name nor a file, the error lists the shipped names.
MachineProfile machine_named(const std::string& name_or_path);

}  // namespace hearth
