// Compares kernel times predicted from engine/placement/kernel_costs.h with times measured on a GPU
// (tests/data/measured). Built only with the emulator.
#include "tests/profiler/simulation/measured_kernels.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/virtual_time.h"
#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "profiler/bench/kernel_report.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/simulation/simulation.h"
#include "profiler/synthesis/shapes.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kWithin = 0.25;

TEST_CASE("kernels that were measured on a GPU take as long in the simulation") {
  const fs::path all = fs::path(hearth::testing::source_dir()) / "tests/data/measured";
  std::vector<fs::path> machines;
  if (fs::exists(all)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(all))
      if (fs::exists(entry.path() / "kernels.json")) machines.push_back(entry.path());
  }
  if (machines.empty()) {
    return hearth::testing::skip(
        "tests/data/measured has no machine's kernels.json, of hearth-profiler bench --kernels --json on a "
        "GPU");
  }
  for (const fs::path& machine : machines) {
    const KernelComparison comparison = compare_kernels(machine, kWithin);
    INFO(machine.string() << ": " << comparison_text(comparison));
    CHECK(comparison.wrong.empty());
  }
}

/// The report that bench --kernels would give for a GPU that equals its simulation.
Json made_up(const MachineProfile& machine) {
  const ModelShape& shape = *find_shape("1b");
  cuda::KernelBenchOptions options;
  options.shapes = {{.name = "1b",
                     .d_model = shape.d_model,
                     .d_ff = shape.d_ff,
                     .n_heads = shape.n_heads,
                     .n_kv_heads = shape.n_kv_heads,
                     .head_dim = shape.head_dim()}};
  options.types = {DType::kQ4_0};
  options.n_prompt = 32;
  options.n_runs = 1;
  VirtualTime time;
  cuda::simulate_device(simulated_speeds(machine), nullptr);
  const std::vector<cuda::KernelTime> times = cuda::time_kernels(options);
  time.end();
  return Json::parse(kernel_bench_json(*machine.gpu, false, times));
}

void write(const fs::path& path, const Json& json) { std::ofstream(path) << json; }

Json probe_of(const GpuProfile& gpu) {
  return {{"gpu",
           {{"name", gpu.name},
            {"compute_capability", std::to_string(gpu.compute_major) + ".0"},
            {"vram_bytes", gpu.vram_bytes},
            {"vram_bytes_per_s", gpu.vram_bytes_per_s},
            {"to_device_pinned_bytes_per_s", gpu.to_device_pinned_bytes_per_s},
            {"from_device_pinned_bytes_per_s", gpu.from_device_pinned_bytes_per_s},
            {"launch_s", gpu.launch_s},
            {"round_trip_s", gpu.round_trip_s},
            {"multiply_adds_per_s", gpu.multiply_adds_per_s}}}};
}

TEST_CASE("a class of kernels whose measured times are off by more than the allowance is named") {
  const TempFolder folder;
  const MachineProfile machine = machine_named("rtx4090");
  const Json times = made_up(machine);
  write(folder / "probe.json", probe_of(*machine.gpu));
  const auto compared = [&](const std::string& kernel, double factor) {
    Json changed = times;
    for (Json& of : changed.at("kernels"))
      if (of.at("kernel") == kernel) of["seconds"] = of.at("seconds").get<double>() * factor;
    write(folder / "kernels.json", changed);
    return compare_kernels(folder.path(), kWithin);
  };
  const KernelComparison same = compared("none", 1);
  CHECK(same.n_compared == static_cast<int>(times.at("kernels").size()));
  CHECK(same.wrong.empty());
  CHECK(compared("attention", 1.2).wrong.empty());
  // A tenth of the table's time for a hand-over, and three times as much for down rows.
  const KernelComparison slower = compared("hand_over", 10), faster = compared("add_down", 1.0 / 3);
  REQUIRE(slower.wrong.size() == 1);
  CHECK(slower.wrong[0].name == "hand-over");
  CHECK(slower.wrong[0].ratio == Approx(0.1).epsilon(0.01));
  CHECK_THAT(comparison_text(slower), ContainsSubstring("hand-over: simulated in 10 % of the measured time"));
  REQUIRE(faster.wrong.size() == 1);
  CHECK(faster.wrong[0].name == "down rows");
  CHECK(faster.wrong[0].ratio == Approx(3).epsilon(0.01));

  // A probe measures trivial kernels. Launches shorter than the table's make no kernel shorter.
  MachineProfile probed = machine;
  probed.gpu->launch_s = 0.5e-6;
  write(folder / "probe.json", probe_of(*probed.gpu));
  CHECK(compared("none", 1).wrong.empty());

  Json others = times;
  for (Json& of : others.at("kernels")) of["kernel"] = "another";
  write(folder / "kernels.json", others);
  CHECK_THROWS_WITH(compare_kernels(folder.path(), kWithin),
                    ContainsSubstring("none of its kernels is simulated"));
}

}  // namespace
}  // namespace hearth::test
