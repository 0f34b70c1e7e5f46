// Reads any bytes as a machine profile (TOML). The profile must be refused by one message, or be unchanged
// after it is written and read again.
//
// One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "profiler/machine/machine_toml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hearth;
  std::optional<MachineProfile> machine;
  try {
    machine = parse_machine({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const std::runtime_error&) {
    return 0;
  }
  if (!(parse_machine(machine_toml(*machine), "again") == *machine)) std::abort();
  return 0;
}
