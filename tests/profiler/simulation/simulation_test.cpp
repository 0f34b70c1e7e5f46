// The engine's schedule in virtual time. Emulator only.
#include "profiler/simulation/simulation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/base/virtual_time.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/plan/plan_answer.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

SimulatedLoad load_of(const PlannedModel& model, const MachineProfile& machine, Sparsity mode) {
  return {.model = model,
          .machine = machine,
          .mode = mode,
          .load = {.context_tokens = 2048, .n_slots = 1, .prefill_chunk = 64},
          .vram_bytes = usable_vram(machine.gpu->vram_bytes),
          .ram_bytes = usable_ram(machine.host.ram_bytes),
          .activity = std::nullopt,
          .assumptions = {}};
}

constexpr SimulationOptions kShort{.n_prompt = 64, .n_generate = 3, .n_warm = 3};

TEST_CASE("a simulation of a model on the GPU alone agrees with the closed form, and with itself") {
  const MachineProfile machine = machine_named("rtx4090");
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  const SimulatedLoad load = load_of(model, machine, Sparsity::kDense);
  const SimulationResult first = simulate(load, kShort), again = simulate(load, kShort);
  CHECK(first.n_device_layers == first.n_layers);
  CHECK(first.n_shared_layers == 0);
  REQUIRE(first.planned);
  CHECK(first.decode.tokens_per_s() * first.planned->seconds() == Approx(1).margin(0.1));
  CHECK(first.decode.seconds == again.decode.seconds);
  CHECK(first.prefill.seconds == again.prefill.seconds);
  CHECK(VirtualTime::current() == nullptr);
}

TEST_CASE("a simulated model has the contexts that the engine would choose, and decodes within them") {
  const MachineProfile machine = machine_named("rtx4090");
  const PlannedModel model = model_of_shape(*find_shape("1b"), DType::kQ4_0, "silu");
  SimulatedLoad load = load_of(model, machine, Sparsity::kDense);
  load.solve = false;
  load.load.n_slots = 4;
  load.load.n_kv_contexts = kKvContextsDecided;
  const SimulationResult whole = simulate(load, kShort);
  CHECK(whole.n_kv_contexts == 4);
  load.vram_bytes = static_cast<int64_t>(whole.device_bytes.total()) - 1;
  const SimulationResult less = simulate(load, kShort);
  CHECK(less.n_kv_contexts == 3);
  CHECK(less.n_device_layers == less.n_layers);
  load.vram_bytes = static_cast<int64_t>(whole.device_bytes.total() - whole.device_bytes.kv);
  const SimulationResult one = simulate(load, kShort);
  CHECK(one.n_kv_contexts == 1);
  CHECK(one.n_device_layers < one.n_layers);
  load.load.n_kv_contexts = 0;
  CHECK(simulate(load, kShort).n_kv_contexts == 4);
}

TEST_CASE("a slower machine, or one that starts kernels later, is simulated slower") {
  const PlannedModel model = model_of_shape(*find_shape("1b"), DType::kQ4_0, "");
  const auto speed = [&](const auto& change) {
    MachineProfile machine = machine_named("rtx4090");
    change(machine);
    return simulate(load_of(model, machine, Sparsity::kDense), kShort).decode.tokens_per_s();
  };
  const double as_it_is = speed([](MachineProfile&) {});
  CHECK(speed([](MachineProfile& m) { m.gpu->vram_bytes_per_s /= 2; }) < 0.8 * as_it_is);
  CHECK(speed([](MachineProfile& m) { m.gpu->launch_s *= 5; }) < 0.9 * as_it_is);
}

TEST_CASE("shared neurons: the real schedule hands over once a layer and prefetches, the same every time") {
  // A quarter of a 7B model's layers and of 3 GiB.
  const MachineProfile machine = machine_named("rtx4090");
  ModelShape shape = *find_shape("7b");
  shape.n_layers /= 4;
  const PlannedModel model = model_of_shape(shape, DType::kQ4_0, "relu");
  SimulatedLoad load = load_of(model, machine, Sparsity::kPredicted);
  load.vram_bytes = int64_t{3} << 28;
  load.assumptions.cache_margin = 0.5;  // takes a cache even where it gains nothing
  const SimulationResult first = simulate(load, kShort), again = simulate(load, kShort);
  CHECK(first.n_shared_layers > 4);
  CHECK(first.decode.device.n_graphs >= 3 * first.n_shared_layers);
  CHECK(first.decode.host_busy_s > 0);
  REQUIRE(first.prefetch);
  CHECK(first.prefetch->moved > 0);
  CHECK(first.prefetch->used > 0);
  CHECK(first.decode.seconds == again.decode.seconds);
  CHECK(first.prefetch->moved == again.prefetch->moved);
}

TEST_CASE("decoding is simulated as fast as it is planned, however long the run is") {
  // An eighth of a 70B model's layers, in an eighth of the VRAM that an RTX 4090 has for them.
  const MachineProfile machine = machine_named("rtx4090");
  ModelShape shape = *find_shape("llama-70b");
  shape.n_layers /= 8;
  const PlannedModel model = model_of_shape(shape, DType::kQ4_0, "");
  SimulatedLoad load = load_of(model, machine, Sparsity::kPredicted);
  load.load = {.context_tokens = 4096, .n_slots = 1, .prefill_chunk = 512};
  load.vram_bytes = 3'300'000'000;
  std::vector<double> speeds;
  for (const auto& [n_prompt, n_generate] : {std::pair(16, 4), {50, 8}, {16, 24}}) {
    const SimulationResult result = simulate(load, {.n_prompt = n_prompt, .n_generate = n_generate});
    REQUIRE(result.planned);
    REQUIRE(result.n_shared_layers == shape.n_layers);
    INFO(n_prompt << " tokens of prompt, " << n_generate << " decoded, planned "
                  << 1 / result.planned->seconds());
    speeds.push_back(result.decode.tokens_per_s());
    CHECK(speeds.back() * result.planned->seconds() == Approx(1).margin(0.1));
  }
  CHECK(std::ranges::max(speeds) < 1.05 * std::ranges::min(speeds));
}

TEST_CASE("a plan is for one sequence, and a simulation of several says so") {
  const MachineProfile machine = machine_named("rtx4090");
  const PlannedModel model = model_of_shape(*find_shape("1b"), DType::kQ4_0, "silu");
  SimulatedLoad load = load_of(model, machine, Sparsity::kDense);
  const SimulationResult one = simulate(load, kShort);
  CHECK_THAT(simulation_text(load, kShort, one), ContainsSubstring(" promised; simulated "));
  load.load.n_slots = 4;
  const SimulationResult four = simulate(load, kShort);
  CHECK(four.decode.tokens_per_s() > 1.5 * one.decode.tokens_per_s());
  CHECK_THAT(simulation_text(load, kShort, four),
             ContainsSubstring("of each of 4 sequences at once") &&
                 ContainsSubstring("promised of one sequence alone, which --slots 1 simulates"));
}

TEST_CASE("8-bit keys and values are simulated faster in a long context, on the GPU and beside it") {
  const MachineProfile machine = machine_named("rtx4090");
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  SimulatedLoad load = load_of(model, machine, Sparsity::kDense);
  load.load.context_tokens = 4096;
  const bool all_on_gpu = GENERATE(true, false);
  if (!all_on_gpu) {
    load.vram_bytes = int64_t{3} << 30;
    load.solve = false;
    load.split = DeviceSplit::kLayers;
  }
  const SimulationResult halves = simulate(load, kShort);
  load.load.kv_type = KvType::kQ8;
  const SimulationResult rounded = simulate(load, kShort);
  CHECK(rounded.decode.tokens_per_s() > 1.02 * halves.decode.tokens_per_s());
  if (!all_on_gpu) {
    CHECK(rounded.n_device_layers >= halves.n_device_layers);
  } else {
    CHECK(rounded.decode.device.bytes < halves.decode.device.bytes);
    CHECK(rounded.device_bytes.kv == halves.device_bytes.kv / 64 * 34);
  }
}

TEST_CASE("a split by whole layers is simulated too") {
  const MachineProfile machine = machine_named("rtx4090");
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "silu");
  SimulatedLoad load = load_of(model, machine, Sparsity::kDense);
  load.vram_bytes = int64_t{2} << 30;
  load.solve = false;
  load.split = DeviceSplit::kLayers;
  const SimulationResult result = simulate(load, kShort);
  CHECK(result.n_device_layers > 0);
  CHECK(result.n_device_layers < result.n_layers);
  CHECK(result.n_shared_layers == 0);
  CHECK(result.decode.host_busy_s > 0);
  // The GPU computes prompts alone: the other layers' weights are copied to it one after the other.
  CHECK(result.prefill.host_busy_s == 0);
  CHECK(result.prefill.device.to_device_s > 0.9 * result.prefill.seconds);
}

}  // namespace
}  // namespace hearth
