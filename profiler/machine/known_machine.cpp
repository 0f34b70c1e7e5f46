// Reads machine profiles from the cache folder, and measures and stores a missing profile.
#include "profiler/machine/known_machine.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "kernels/base/sha256.h"
#include "kernels/base/whole_file.h"
#include "profiler/machine/cache_folder.h"
#include "profiler/machine/machine_toml.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

// Change the number of the format if the file's form or the meaning of a figure changes.
constexpr std::string_view kHead =
    "# Machine profile of hearth-profiler probe, format 1; sha256 of what follows: ";
constexpr size_t kDigits = 64;
constexpr size_t kMaxTextBytes = 1 << 20;

std::string commented(const std::string& lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text += "# " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

/// Reads the stored profile. Returns nullopt if there is none, or if it cannot be used; in the second case,
/// adds a note.
std::optional<MachineProfile> read_back(const fs::path& file, const std::string& identity,
                                        std::vector<std::string>& notes) try {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  return parse_kept(read_whole_file(file, kMaxTextBytes), identity, file.string());
} catch (const std::runtime_error& unusable) {
  notes.push_back(std::string(unusable.what()) + " The machine is measured again.");
  return std::nullopt;
}

}  // namespace

std::string kept_name(const std::string& identity) {
  return "machine-" + sha256_hex(identity).substr(0, 16) + ".toml";
}

std::string kept_text(const MachineProfile& machine, const std::string& identity) {
  const std::string body = commented(identity) + machine_toml(machine);
  return std::string(kHead) + sha256_hex(body) + "\n" + body;
}

MachineProfile parse_kept(std::string_view text, const std::string& identity, const std::string& origin) {
  const size_t head = kHead.size() + kDigits + 1;
  if (text.size() < head || !text.starts_with(kHead) || text[head - 1] != '\n') {
    throw std::runtime_error(origin + ": does not begin like a profile of this version of hearth-profiler.");
  }
  const std::string_view body = text.substr(head);
  if (sha256_hex(body) != text.substr(kHead.size(), kDigits)) {
    throw std::runtime_error(origin + ": is damaged: its checksum does not fit.");
  }
  if (!body.starts_with(commented(identity) + "name = ")) {
    throw std::runtime_error(origin + ": is the profile of another machine.");
  }
  return parse_machine(text, origin);
}

std::optional<KnownMachine> known_machine(const Environment& environment, bool fresh,
                                          const ProbeOptions& options) {
  return known_machine(environment, hardware_here(), fresh,
                       [&options](const Hardware& hardware) { return probe_machine(hardware, options); });
}

std::optional<KnownMachine> known_machine(const Environment& environment, const Hardware& hardware,
                                          bool fresh, const Measure& measure) {
  // 1. Read the profile from the cache folder if it was measured before.
  const std::string identity = identity_of(hardware);
  KnownMachine known;
  const std::variant<fs::path, std::string> folder = cache_folder(environment);
  if (std::holds_alternative<fs::path>(folder)) {
    known.file = std::get<fs::path>(folder) / kept_name(identity);
  } else {
    known.notes.push_back("What is measured is not kept: " + std::get<std::string>(folder) + ".");
  }
  if (!fresh && !known.file.empty()) {
    if (std::optional<MachineProfile> kept = read_back(known.file, identity, known.notes)) {
      known.machine = *std::move(kept);
      return known;
    }
  }

  // 2. Measure it, and keep it.
  std::optional<Probe> probe = measure(hardware);
  if (!probe) return std::nullopt;
  known.machine = std::move(probe->machine);
  known.measured_now = true;
  known.notes.insert(known.notes.end(), probe->notes.begin(), probe->notes.end());
  if (known.file.empty()) return known;
  if (!probe->complete) {
    known.file.clear();
    return known;
  }
  try {
    write_whole_file(known.file, kept_text(known.machine, identity));
  } catch (const std::runtime_error& error) {
    known.notes.push_back("What is measured is not kept: " + std::string(error.what()));
    known.file.clear();
  }
  return known;
}

std::optional<MachineProfile> kept_machine(const Environment& environment) {
  const std::optional<KnownMachine> known = known_machine(environment, hardware_here(), /*fresh=*/false,
                                                          [](const Hardware&) { return std::nullopt; });
  return known ? std::optional(known->machine) : std::nullopt;
}

PromptRates prompt_rates(const MachineProfile& machine) {
  if (!machine.gpu) return {};
  return {.to_device_bytes_per_s = machine.gpu->to_device_pinned_bytes_per_s,
          .multiply_adds_per_s = machine.gpu->multiply_adds_per_s,
          .cpu_multiply_adds_per_s = machine.host.multiply_adds_per_s};
}

}  // namespace hearth
