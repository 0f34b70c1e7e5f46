// The shipped profiles: each can be read, is plausible, and names the sources of its figures.
#include "profiler/machine/shipped_machines.h"

#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "profiler/machine/machine_toml.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

TEST_CASE("every shipped machine can be read and is plausible") {
  std::set<std::string> names;
  for (const ShippedMachine& shipped : shipped_machines()) {
    CAPTURE(shipped.name);
    const MachineProfile machine = shipped_machine(shipped.name).value();
    CHECK(names.insert(machine.name).second);
    CHECK(shipped_machine_names().find(shipped.name) != std::string::npos);
    CHECK(machine_named(std::string(shipped.name)) == machine);

    const HostProfile& host = machine.host;
    CHECK(host.n_cores >= 4);
    CHECK(host.ram_bytes >= 16'000'000'000);
    CHECK(machine.ram_read_bytes_per_s() > 30e9);
    CHECK(machine.ram_read_bytes_per_s() < 1e12);
    CHECK(host.ram_read.front().n_threads == 1);
    CHECK(host.ram_read.front().bytes_per_s > 10e9);
    CHECK(host.ram_read.back().n_threads <= 2 * host.n_cores);
    for (size_t i = 1; i < host.ram_read.size(); ++i) {
      CHECK(host.ram_read[i].bytes_per_s > host.ram_read[i - 1].bytes_per_s);
    }
    CHECK(host.sparse_row_share > 0.25);
    CHECK(host.sparse_row_share < 1);
    // A core does some dozen multiply-adds per cycle at some GHz.
    CHECK(host.multiply_adds_per_s / host.n_cores > 1e10);
    CHECK(host.multiply_adds_per_s / host.n_cores < 1e12);

    REQUIRE(machine.gpu);
    const GpuProfile& gpu = *machine.gpu;
    CHECK(gpu.vram_bytes >= 8'000'000'000);
    CHECK(gpu.compute_major * 10 + gpu.compute_minor >= 75);
    CHECK(gpu.vram_bytes_per_s > 3 * machine.ram_read_bytes_per_s());
    CHECK(gpu.to_device_pinned_bytes_per_s > 10e9);
    CHECK(gpu.to_device_pinned_bytes_per_s < 64e9);  // PCIe 5.0 x16
    CHECK(gpu.from_device_pinned_bytes_per_s == Approx(gpu.to_device_pinned_bytes_per_s).epsilon(0.1));
    CHECK(gpu.to_device_pageable_bytes_per_s < 0.5 * gpu.to_device_pinned_bytes_per_s);
    CHECK(gpu.from_device_pageable_bytes_per_s < 0.5 * gpu.from_device_pinned_bytes_per_s);
    CHECK(gpu.launch_s < gpu.round_trip_s);
    CHECK(gpu.round_trip_s < 1e-4);
    CHECK(gpu.multiply_adds_per_s > 4 * host.multiply_adds_per_s);
  }
  CHECK(shipped_machine_names() ==
        "rtx4090, rtx3090, rtx3060, rtx2080ti, rtx5090, rtx5060ti, rtx4060-laptop, rtxa6000, h100, h200");
  CHECK_FALSE(shipped_machine("rtx1"));
  CHECK_FALSE(shipped_machine(""));
}

TEST_CASE("every figure of a shipped machine has its source above it") {
  for (const ShippedMachine& shipped : shipped_machines()) {
    CAPTURE(shipped.name);
    std::istringstream lines{std::string(shipped.toml)};
    std::string line;
    int n_figures = 0;
    bool told = false;  // by a comment above the figures that follow it
    while (std::getline(lines, line)) {
      const bool figure = line.find("_bytes_per_s = ") != std::string::npos ||
                          line.find("_s = ") != std::string::npos || line.rfind("ram_read", 0) == 0 ||
                          line.rfind("sparse_row_share", 0) == 0;
      if (line.rfind("#", 0) == 0) told = true;
      if (line.empty() || line[0] == '[') told = false;
      if (figure) {
        CAPTURE(line);
        CHECK(told);
        ++n_figures;
      }
    }
    CHECK(n_figures >= 11);
  }
}

TEST_CASE("a machine is given by name or by file") {
  const TempFolder folder;
  const std::string path = folder / "mine.toml";
  std::ofstream(path) << machine_toml(shipped_machine("h100").value());
  CHECK(machine_named(path) == shipped_machine("h100").value());
  try {
    machine_named("rtx9090");
    FAIL("there is no such machine");
  } catch (const std::runtime_error& error) {
    CHECK_THAT(error.what(),
               ContainsSubstring("'rtx9090' is not a machine: expected one of rtx4090, rtx3090,"));
  }
  CHECK_THROWS_WITH(machine_named("/none/rtx4090.toml"),
                    ContainsSubstring("/none/rtx4090.toml: there is no such file"));
}

}  // namespace
}  // namespace hearth::test
