// Mixtures in virtual time: the CPU's reads, computed by hand; what overlaps; steps of several tokens.
// Emulator only.
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "profiler/machine/shipped_machines.h"
#include "profiler/simulation/simulation.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

constexpr SimulationOptions kBrief{.n_prompt = 64, .n_generate = 3, .n_warm = 3, .n_warm_exchanges = 3};
constexpr int kLayers = 4;

/// Wide enough that experts take most of the time.
ModelShape shape_of(int n_used, int d_shared) {
  ModelShape shape = *find_shape("tiny-moe");
  shape.d_model = 2048;
  shape.n_experts = 32;
  shape.n_used = n_used;
  shape.d_expert = 1024;
  shape.d_shared = d_shared;
  return shape;
}

struct Run {
  PlannedModel model;
  MachineProfile machine = machine_named("rtx4090");
  int n_slots = 1;
  bool graphs = true, prefetch = true;
  std::optional<int64_t> vram_bytes = {};
  bool experts = true;  // the GPU may hold some

  SimulatedLoad load() const {
    return {.model = model,
            .machine = machine,
            .mode = Sparsity::kDense,
            .load = {.context_tokens = 1024, .n_slots = n_slots, .prefill_chunk = 64, .experts = experts},
            .vram_bytes = vram_bytes.value_or(usable_vram(machine.gpu->vram_bytes)),
            .ram_bytes = usable_ram(machine.host.ram_bytes),
            .activity = std::nullopt,
            .assumptions = {},
            .prefetch = prefetch,
            .graphs = graphs};
  }
  SimulationResult result(const SimulationOptions& options = kBrief) const {
    return simulate(load(), options);
  }
};

/// A run whose experts are all on the CPU.
Run run_of(int n_used, int d_shared = 0) {
  Run run{.model = model_of_shape(shape_of(n_used, d_shared), DType::kQ4_0, "")};
  run.experts = false;
  return run;
}

double step_s(const SimulatedPhase& phase) { return phase.seconds / static_cast<double>(phase.n_steps); }

constexpr double kExpertBytes = 3.0 * 2048 * 1024 * 18 / 32;

TEST_CASE("a simulated mixture's token waits for the bytes of its own experts only") {
  const Run few = run_of(2), many = run_of(6);
  const SimulationResult a = few.result(), b = many.result();
  CHECK(a.n_device_layers == kLayers);
  CHECK(a.decode.seconds == few.result().decode.seconds);
  const double ram = few.machine.ram_read_bytes_per_s();
  CHECK(step_s(b.decode) - step_s(a.decode) == Approx(kLayers * 4 * kExpertBytes / ram).epsilon(0.01));
  // Plus four forks per layer.
  CHECK(a.decode.host_busy_s / 3 == Approx(kLayers * (2 * kExpertBytes / ram + 4 * 2e-6)).epsilon(1e-6));
  CHECK(a.decode.n_woken == 0);
  // The GPU's bytes, the starts of kernels and the hand-overs are added, all of them small here.
  CHECK(step_s(b.decode) > 1.05 * b.decode.host_busy_s / 3);
  CHECK(step_s(b.decode) < 2 * b.decode.host_busy_s / 3);
  // Only the waits at a step's beginning and end are for all of the GPU's work.
  CHECK(b.decode.device.n_hand_overs == 3 * kLayers);
  CHECK(b.decode.device.n_waits <= 3 * 3);
}

TEST_CASE("experts of a simulated step are read once, for several sequences and for a prompt") {
  Run run = run_of(4);
  run.machine.host.multiply_adds_per_s = 1e18;  // reading is the limit
  const double ram = run.machine.ram_read_bytes_per_s(), forks = 4 * 2e-6;
  const auto experts = [&](const SimulatedPhase& phase) {
    return (phase.host_busy_s / static_cast<double>(phase.n_steps) / kLayers - forks) * ram / kExpertBytes;
  };
  const SimulationResult one = run.result();
  CHECK(experts(one.decode) == Approx(4));
  CHECK(experts(one.prefill) > 24);
  CHECK(experts(one.prefill) < 32.1);
  run.n_slots = 8;
  const double of_eight = experts(run.result().decode);
  CHECK(of_eight > 10);
  CHECK(of_eight < 28);
  // If the CPU multiplies slowly, that limits a prompt.
  run.machine = machine_named("rtx4090");
  run.machine.host.multiply_adds_per_s = 1e10;
  CHECK(run.result().prefill.host_busy_s ==
        Approx(kLayers * (64.0 * 4 * 3 * 2048 * 1024 / 1e10 + forks)).epsilon(1e-3));
}

TEST_CASE("a shared expert runs on the simulated GPU, and its overlap with the CPU is reported") {
  const double bytes = 3.0 * 2048 * 8192 * 18 / 32;
  Run with = run_of(4, 8192);
  const Run without = run_of(4);
  CHECK(with.result().decode.device.bytes - without.result().decode.device.bytes ==
        Approx(3 * kLayers * bytes).epsilon(0.02));
  CHECK(without.result().decode.both_busy_s == 0);
  // Its kernels run while the CPU computes, whether they are recorded or not.
  for (const bool graphs : {true, false}) {
    INFO(graphs);
    with.graphs = graphs;
    const SimulationResult result = with.result();
    CHECK(result.decode.both_busy_s > 0.9 * 3 * kLayers * bytes / with.machine.gpu->vram_bytes_per_s);
    CHECK(result.decode.both_busy_s < result.decode.host_busy_s);
    CHECK(result.prefill.both_busy_s > 0);
  }
}

TEST_CASE("layers that the simulated GPU does not hold run wholly on the CPU") {
  Run run = run_of(4);
  const SimulationResult whole = run.result();
  run.vram_bytes = static_cast<int64_t>(whole.device_bytes.total()) - (1 << 20);
  const SimulationResult less = run.result();
  CHECK(less.n_device_layers < kLayers);
  CHECK(less.decode.host_busy_s > whole.decode.host_busy_s);
  CHECK(less.decode.device.n_kernels < whole.decode.device.n_kernels);
}

// In prompts of 64 tokens, the closed form does not know how few tokens an expert's tile has.
TEST_CASE("the closed form of mixtures is within 15 % of the simulation in decoding, and half in prompts") {
  struct Case {
    const char *shape, *machine;
    bool half;  // half of the layers are on the GPU
  };
  const auto [shape, machine, half] =
      GENERATE(Case{"qwen3-30b-a3b", "rtx4090", false}, Case{"qwen3-30b-a3b", "h100", true},
               Case{"gpt-oss-120b", "rtx4090", true}, Case{"gpt-oss-120b", "h100", false},
               Case{"glm-4.5-air", "rtx4090", false}, Case{"glm-4.5-air", "h100", false});
  INFO(shape << " on " << machine);
  // A quarter of the layers and of the VRAM takes a quarter of the time to simulate.
  const int parts = half ? 1 : 4;
  ModelShape part = *find_shape(shape);
  part.n_layers /= parts;
  Run run{.model = model_of_shape(part, DType::kQ4_0, ""), .machine = machine_named(machine)};
  run.vram_bytes = usable_vram(run.machine.gpu->vram_bytes) / parts;
  if (half) {
    const DeviceBytes bytes = run.result().device_bytes;
    run.vram_bytes = static_cast<int64_t>(bytes.total() - bytes.experts) / 2;
  }
  // After the exchanges of some tokens, the GPU holds the experts that the tokens use.
  const SimulationResult result = run.result({.n_prompt = 64, .n_generate = 16, .n_warm_exchanges = 160});
  REQUIRE(result.mixture_plan);
  CHECK(half == (result.n_device_layers < result.n_layers));
  CHECK(step_s(result.decode) / result.mixture_plan->decode.seconds() == Approx(1).margin(0.15));
  CHECK(1 / result.prefill.tokens_per_s() / result.mixture_plan->prefill.seconds() == Approx(1).margin(0.5));
}

TEST_CASE("a simulated GPU exchanges experts for those that the tokens use") {
  Run run{.model = model_of_shape(shape_of(4, 0), DType::kQ4_0, "")};
  const DeviceBytes bytes = run.result().device_bytes;
  run.vram_bytes = static_cast<int64_t>(bytes.total() - bytes.experts / 2);
  const SimulationOptions options{.n_prompt = 64, .n_generate = 64, .n_warm_exchanges = 128};
  const SimulationResult with = run.result(options);
  REQUIRE(with.exchange);
  CHECK(with.exchange->experts > 0);
  const SimulatedLoad load = run.load();
  CHECK_THAT(simulation_text(load, options, with), ContainsSubstring("exchanged ("));
  CHECK_THAT(simulation_json(load, options, with), ContainsSubstring("\"experts_on_device_share\""));
  run.prefetch = false;
  const SimulationResult without = run.result(options);
  CHECK_FALSE(without.exchange);
  CHECK(with.experts.resident > without.experts.resident * 5 / 4);
  CHECK(with.decode.tokens_per_s() > 1.1 * without.decode.tokens_per_s());
}

size_t resident_bytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_CASE("a simulation copies experts without moving their bytes") {
  ModelShape shape = shape_of(4, 0);
  shape.d_expert = 512;  // small matrices, in case small copies move bytes
  Run run{.model = model_of_shape(shape, DType::kQ4_0, "")};
  const DeviceBytes bytes = run.result().device_bytes;
  run.vram_bytes = static_cast<int64_t>(bytes.total() - bytes.experts / 2);
  const size_t before = resident_bytes();
  size_t most = before;
  const SimulationOptions options{.n_prompt = 64, .n_generate = 64, .n_warm_exchanges = 128};
  const SimulationResult result =
      simulate(run.load(), options, [&](double) { most = std::max(most, resident_bytes()); });
  REQUIRE(result.exchange);
  REQUIRE(result.decode.device.to_device_bytes > 64e6);
  CHECK(static_cast<double>(most - before) < result.decode.device.to_device_bytes / 4);
}

TEST_CASE("a budget above the GPU's memory simulates a GPU with more memory") {
  ModelShape half = *find_shape("gpt-oss-120b");
  half.n_layers /= 2;
  Run run{.model = model_of_shape(half, DType::kQ4_0, "")};
  const int64_t vram = run.machine.gpu->vram_bytes;
  run.vram_bytes = vram + (int64_t{8} << 30);
  const SimulationResult result = run.result();
  CHECK(static_cast<int64_t>(result.device_bytes.total()) > vram);
  CHECK_THAT(simulation_text(run.load(), kBrief, result),
             ContainsSubstring("a budget of 32.0 GiB, which is more than the GPU's 24.0 GiB"));
  run.vram_bytes = std::nullopt;
  const SimulationResult less = run.result();
  CHECK_THAT(simulation_text(run.load(), kBrief, less), !ContainsSubstring("more than the GPU's"));
  CHECK(less.decode.seconds > result.decode.seconds);
}

TEST_CASE("a simulated mixture's report shows a layer's cost beside the plan") {
  const Run run = run_of(4);
  const SimulationResult result = run.result();
  REQUIRE(result.mixture_plan);
  const SimulatedLoad load = run.load();
  const std::string json = simulation_json(load, kBrief, result);
  for (const char* key : {"kernels_per_layer", "graphs_per_layer", "waits_per_layer", "hand_overs_per_layer",
                          "gpu_idle_share", "cpu_idle_share", "pcie_idle_share", "both_busy_share",
                          "planned_decode_tokens_per_s", "planned_prefill_tokens_per_s"}) {
    CHECK_THAT(json, ContainsSubstring(key));
  }
  CHECK_THAT(simulation_text(load, kBrief, result), ContainsSubstring("full waits for the GPU"));
}

}  // namespace
}  // namespace hearth
