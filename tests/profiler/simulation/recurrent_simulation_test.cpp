// Models with recurrent layers in virtual time: each step reads and writes the states of its sequences, on
// the GPU and on the CPU. Emulator only.
#include <filesystem>

#include "profiler/machine/shipped_machines.h"
#include "profiler/simulation/simulation.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

constexpr SimulationOptions kFew{.n_prompt = 64, .n_generate = 3, .n_warm = 2, .n_warm_exchanges = 0};

/// A shape whose weights are small beside its states.
ModelShape small_shape(const std::string& name, int n_layers) {
  ModelShape shape = with_layers(*find_shape(name), n_layers);
  shape.d_model = 256;
  shape.d_ff = 256;
  shape.n_vocab = 1024;
  if (shape.has_experts()) {
    shape.n_experts = 8;
    shape.n_used = 2;
    shape.d_expert = 64;
  }
  if (shape.d_shared > 0) shape.d_shared = 64;
  return shape;
}

SimulationResult simulated(const PlannedModel& model, int n_slots, double vram_share) {
  const MachineProfile machine = machine_named("rtx4090");
  return simulate(
      {.model = model,
       .machine = machine,
       .mode = Sparsity::kDense,
       .load = {.context_tokens = 256, .n_slots = n_slots, .n_kv_contexts = n_slots, .prefill_chunk = 64},
       .vram_bytes = static_cast<int64_t>(vram_share * static_cast<double>(machine.gpu->vram_bytes)),
       .ram_bytes = usable_ram(machine.host.ram_bytes),
       .activity = std::nullopt,
       .assumptions = {},
       .solve = false},
      kFew);
}

TEST_CASE("a simulated GPU reads and writes the state of each sequence in each step") {
  const auto [name, n_layers, n_recurrent] =
      GENERATE(std::tuple{"qwen3.5-4b", 8, 6}, std::tuple{"qwen3.6-35b-a3b", 8, 6},
               std::tuple{"nemotron-3-nano", 8, 4});
  CAPTURE(name);
  const PlannedModel model = model_of_shape(small_shape(name, n_layers), DType::kQ8_0, "");
  const SimulationResult one = simulated(model, 1, 0.9), three = simulated(model, 3, 0.9);
  CHECK(one.n_device_layers > 0);
  // Each further sequence adds the bytes of its states. Its activations, keys, values and logits add up to a
  // fifth of that. In mixtures, the experts that only this sequence chooses add bytes too.
  const double states = 2.0 * n_recurrent * static_cast<double>(model.spec.recurrent.state_bytes());
  const double more = (three.decode.device.bytes - one.decode.device.bytes) / kFew.n_generate;
  CHECK(more > 1.9 * states);
  CHECK(more < 2.6 * states);
}

TEST_CASE("a simulated GPU has room for the layer that drafts, as hearthd places it") {
  const std::filesystem::path path =
      std::filesystem::path(testing::source_dir()) / "tests/data/arch/qwen35-nextn.gguf";
  const SimulationResult result = simulated(model_of_file(path, ""), 1, 0.9);
  CHECK(result.n_device_layers > 0);
  CHECK(result.device_bytes.drafts > 0);
}

}  // namespace
}  // namespace hearth
