// Returns this machine's profile, which is measured once and then kept in the cache folder.
//
// There is one file for each identity (profiler/machine/hardware.h). Therefore machines that share a home
// folder, and containers with different limits, use different files. The file is a machine profile in TOML,
// which people can read and `--machine` accepts. Its head names the machine and has a checksum. A file that
// is damaged, has another version or belongs to another machine is replaced instead of used.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "engine/prompt_step.h"
#include "profiler/machine/probe.h"

namespace hearth {

struct KnownMachine {
  MachineProfile machine;
  bool measured_now = false;
  std::filesystem::path file;  // the file with the profile; empty if the profile is not kept
  /// Sentences: the probe's notes, and reasons why the profile could not be kept or read.
  std::vector<std::string> notes;
};

/// A function that measures the hardware, or returns nullopt if it was stopped.
using Measure = std::function<std::optional<Probe>(const Hardware&)>;

/// Returns the profile of this hardware. Reads it from the cache folder, or calls `measure` and writes the
/// result to the folder. fresh: whether to measure even if the folder has a profile. Returns nullopt if
/// `measure` was stopped. If the cache folder cannot be used, only adds notes. Passes on the exceptions of
/// `measure`.
std::optional<KnownMachine> known_machine(const Environment& environment, const Hardware& hardware,
                                          bool fresh, const Measure& measure);

/// Like the function above, but for hardware_here() and with probe_machine() as `measure`.
std::optional<KnownMachine> known_machine(const Environment& environment, bool fresh,
                                          const ProbeOptions& options);

/// Returns this machine's profile from the cache folder, or nullopt if it was not measured before. Never
/// measures.
std::optional<MachineProfile> kept_machine(const Environment& environment);

/// Returns the rates that decide how prompts are computed on a machine with a GPU. Without a GPU, they are
/// left unknown.
PromptRates prompt_rates(const MachineProfile& machine);

/// The name and the contents of the file for this identity.
std::string kept_name(const std::string& identity);
std::string kept_text(const MachineProfile& machine, const std::string& identity);

/// Parses a text that kept_text() wrote for this identity. Throws std::runtime_error (one sentence that
/// begins with `origin`) for any other text.
MachineProfile parse_kept(std::string_view text, const std::string& identity, const std::string& origin);

}  // namespace hearth
