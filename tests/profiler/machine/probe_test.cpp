// A complete probe of the machine that runs the tests: every figure exists and can be stored, progress only
// increases, and it stops when told to. Does not test speeds.
#include "profiler/machine/probe.h"

#include <stop_token>
#include <string>
#include <vector>

#include "kernels/cpu/threads/topology.h"
#include "profiler/machine/machine_toml.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// This machine without its GPU; two of its processors become NUMA nodes of their own.
Hardware two_nodes() {
  Hardware hardware = hardware_here();
  hardware.numa_nodes = {{hardware.processors.front()}, {hardware.processors.back()}};
  hardware.gpu.reset();
  return hardware;
}

TEST_CASE("a probe measures memory, each node, scattered rows and arithmetic") {
  const Hardware hardware = two_nodes();
  std::vector<double> fractions;
  std::string told;
  ProbeOptions options;
  options.progress = [&](double fraction, std::string_view what) {
    fractions.push_back(fraction);
    told += std::string(what) + ";";
  };
  const Probe probe = probe_machine(hardware, options).value();
  const HostProfile& host = probe.machine.host;
  CHECK(host.n_cores == hardware.n_cores);
  CHECK(host.n_numa_nodes == 2);
  CHECK(host.numa_read_bytes_per_s.size() == 2);
  CHECK(host.ram_read.size() == thread_counts(hardware.n_cores).size());
  CHECK(host.ram_read.back().n_threads == hardware.n_cores);
  CHECK_FALSE(probe.machine.gpu);
  CHECK(parse_machine(machine_toml(probe.machine), "f") == probe.machine);  // all figures are possible ones

  CHECK(fractions.front() == 0);
  CHECK(fractions.back() < 1);
  for (size_t i = 1; i < fractions.size(); ++i) CHECK(fractions[i] > fractions[i - 1]);
  for (const char* what : {"NUMA", "memory", "neurons", "arithmetic"})
    CHECK_THAT(told, ContainsSubstring(what));
}

TEST_CASE("a probe stops at the next measurement when it is told to") {
  std::stop_source stop;
  int n_told = 0;
  ProbeOptions options;
  options.progress = [&](double, std::string_view) {
    if (++n_told == 2) stop.request_stop();
  };
  options.stop = stop.get_token();
  CHECK_FALSE(probe_machine(two_nodes(), options));
  CHECK(n_told == 2);
}

}  // namespace
}  // namespace hearth::test
