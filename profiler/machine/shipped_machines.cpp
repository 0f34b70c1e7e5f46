// Finds shipped profiles by name. CMake generates shipped_machines() from profiler/machine/machines/*.toml.
#include "profiler/machine/shipped_machines.h"

#include <filesystem>
#include <stdexcept>

#include "profiler/machine/machine_toml.h"

namespace hearth {

std::string shipped_machine_names() {
  std::string names;
  for (const ShippedMachine& machine : shipped_machines()) {
    names += (names.empty() ? "" : ", ") + std::string(machine.name);
  }
  return names;
}

std::optional<MachineProfile> shipped_machine(std::string_view name) {
  for (const ShippedMachine& machine : shipped_machines()) {
    if (machine.name == name) return parse_machine(machine.toml, "the shipped profile " + std::string(name));
  }
  return std::nullopt;
}

MachineProfile machine_named(const std::string& name_or_path) {
  if (std::optional<MachineProfile> shipped = shipped_machine(name_or_path)) return *std::move(shipped);
  std::error_code error;
  if (name_or_path.find('/') == std::string::npos && !std::filesystem::exists(name_or_path, error)) {
    throw std::runtime_error("'" + name_or_path + "' is not a machine: expected one of " +
                             shipped_machine_names() +
                             ", or a file that hearth-profiler probe --toml has written.");
  }
  return read_machine(name_or_path);
}

}  // namespace hearth
