// This machine's profile: what was measured of it once, kept in the cache folder, or measured now.
//
// One file for each identity (profiler/machine/hardware.h), so that homes shared between machines, and
// containers with different limits, have theirs. The file is a machine profile in TOML that people can read
// and `--machine` takes; its head says whose it is, and has a checksum. A file that is damaged, of another
// version or of another machine is not used, and is written anew.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "profiler/machine/probe.h"

namespace hearth {

struct KnownMachine {
  MachineProfile machine;
  bool measured_now = false;
  std::filesystem::path file;      // where it is kept; empty: nowhere
  std::vector<std::string> notes;  // sentences: the probe's, and why it is kept nowhere or was not read back
};

/// Measures, or is told to stop: nullopt.
using Measure = std::function<std::optional<Probe>(const Hardware&)>;

/// Reads the profile of this hardware back, or measures and keeps it; fresh: measures all the same. nullopt:
/// told to stop. What the cache folder has or lacks is never an error, only a note. Throws what measure does.
std::optional<KnownMachine> known_machine(const Environment& environment, const Hardware& hardware,
                                          bool fresh, const Measure& measure);

/// The same of the machine that this runs on, by probe_machine.
std::optional<KnownMachine> known_machine(const Environment& environment, bool fresh,
                                          const ProbeOptions& options);

/// The file's name for this identity, and its text.
std::string kept_name(const std::string& identity);
std::string kept_text(const MachineProfile& machine, const std::string& identity);

/// The profile that a text of that kind holds for this identity. Throws std::runtime_error, one sentence that
/// begins with origin, where it is not exactly what kept_text wrote for it.
MachineProfile parse_kept(std::string_view text, const std::string& identity, const std::string& origin);

}  // namespace hearth
