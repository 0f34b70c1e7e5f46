// Returns this machine's profile, which is measured once and then kept in the cache folder.
//
// There is one file for each identity (profiler/machine/hardware.h), so that machines that share a home
// folder, and containers with different limits, have files of their own. The file is a machine profile in
// TOML, which people can read and `--machine` accepts. Its head names the machine and has a checksum. A file
// that is damaged, has another version or belongs to another machine is not used but replaced.
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
  std::filesystem::path file;  // the file with the profile; empty: it is not kept
  /// Sentences: the probe's notes, and why the profile was not kept or not read back.
  std::vector<std::string> notes;
};

/// Measures the hardware; returns nullopt if it was told to stop.
using Measure = std::function<std::optional<Probe>(const Hardware&)>;

/// Reads the profile of this hardware back, or measures and keeps it. fresh: always measures. Returns nullopt
/// if `measure` was told to stop. Problems with the cache folder are never errors, only notes. Throws what
/// `measure` throws.
std::optional<KnownMachine> known_machine(const Environment& environment, const Hardware& hardware,
                                          bool fresh, const Measure& measure);

/// Like the above, for this machine, measured by probe_machine().
std::optional<KnownMachine> known_machine(const Environment& environment, bool fresh,
                                          const ProbeOptions& options);

/// This machine's profile from the cache folder, or nullopt if it was not measured yet. Measures nothing.
std::optional<MachineProfile> kept_machine(const Environment& environment);

/// The rates of prompts on a machine with a GPU. Without a GPU they are unknown.
PromptRates prompt_rates(const MachineProfile& machine);

/// The name and the text of the file for this identity.
std::string kept_name(const std::string& identity);
std::string kept_text(const MachineProfile& machine, const std::string& identity);

/// The profile in a text that kept_text() wrote for this identity. Throws std::runtime_error (one sentence
/// that begins with `origin`) if the text is anything else.
MachineProfile parse_kept(std::string_view text, const std::string& identity, const std::string& origin);

}  // namespace hearth
