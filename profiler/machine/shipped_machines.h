// Profiles of machines that are not at hand: what `plan` is asked for them.
//
// TOML files in profiler/machine/machines, each figure with its source, built into the program. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/machine/machine_profile.h"

namespace hearth {

struct ShippedMachine {
  std::string_view name;  // "rtx4090": what users say
  std::string_view toml;
};

/// All, in the order in which they are shown.
const std::vector<ShippedMachine>& shipped_machines();

/// "rtx4090, rtx3090, ...", for help and messages.
std::string shipped_machine_names();

/// The profile of this name; nullopt if none is shipped.
std::optional<MachineProfile> shipped_machine(std::string_view name);

/// What `--machine` says: a name of the above, or else a file. Throws as read_machine, or, where it is
/// neither, with the names there are.
MachineProfile machine_named(const std::string& name_or_path);

}  // namespace hearth
