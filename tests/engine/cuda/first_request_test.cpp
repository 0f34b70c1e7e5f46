// Tests that the device is prepared for the first request: every kernel is loaded before memory is planned,
// and after the warm-up nothing is launched for the first time and nothing is recorded.
#include <string>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "engine/warm_up.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::testing {
namespace {

constexpr int kSlots = 3;

/// An emulated machine on which no kernel has been used yet; the previous one is restored at the end.
class FreshMachine {
 public:
  FreshMachine() : before_(cudaemu::config()) { cudaemu::forget_kernels(); }
  ~FreshMachine() {
    cudaemu::config() = before_;
    cudaemu::forget_kernels();
  }
  FreshMachine(const FreshMachine&) = delete;
  FreshMachine& operator=(const FreshMachine&) = delete;
  cudaemu::Config* operator->() { return &cudaemu::config(); }

 private:
  cudaemu::Config before_;
};

/// Long enough for the kernels of prompts and for the streaming of cold neurons.
std::vector<int32_t> long_prompt(const ModelRuntime& model, int n) {
  return spread_tokens(n, model.facts().spec.n_vocab);
}

EngineOptions engine_options(const ModelRuntime& model) {
  return {.n_slots = kSlots,
          .context_tokens = model.facts().context_tokens,
          .prefill_chunk = model.facts().prompt_step.tokens};
}

LoadOptions options_of(const std::filesystem::path& file, const std::string& mode) {
  LoadOptions options = device_options(file, mode);
  options.n_slots = kSlots;
  options.prefill_chunk = 40;
  return options;
}

TEST_CASE("a long prompt is served although no memory is left to load its kernels") {
  std::vector<int32_t> expected;
  {
    LoadOptions options = options_of("arch/bamboo.powerinfer.gguf", "exact");
    options.choose_placement = placed(Share::kThird, false, 8);
    const auto model = ModelRuntime::load(options);
    Engine engine(*model, engine_options(*model));
    expected = ask(engine, greedy(long_prompt(*model, 50), 6)).tokens;
  }
  FreshMachine machine;
  machine->kernel_bytes = 64 << 10;
  LoadOptions options = options_of("arch/bamboo.powerinfer.gguf", "exact");
  options.choose_placement = placed(Share::kThird, false, 8);
  const auto model = ModelRuntime::load(options);
  machine->vram_taken_bytes = machine->vram_bytes - cudaemu::stats().vram_used;
  Engine engine(*model, engine_options(*model));
  const Answer answer = ask(engine, greedy(long_prompt(*model, 50), 6));
  INFO(answer.finished.error);
  CHECK(answer.finished.reason == FinishReason::kLength);
  CHECK(answer.tokens == expected);
}

TEST_CASE("a device without memory for the kernels is not used, and the log says so") {
  FreshMachine machine;
  machine->kernel_bytes = size_t{1} << 30;
  LoadOptions options = options_of("arch/qwen3.gguf", "dense");
  CHECK_THROWS_WITH(ModelRuntime::load(options),
                    ContainsSubstring("the GPU has no memory left for Hearth's kernels; take --device auto"));
  options.device = DeviceChoice::kAuto;
  CHECK(ModelRuntime::load(options)->placed().plan == nullptr);
}

/// Serves a first request of n_prompt tokens after the warm-up, then another one.
void check_first_request(const LoadOptions& options, int n_prompt, bool counted = false) {
  FreshMachine machine;
  const auto model = ModelRuntime::load(options);
  const EngineOptions engine_options = hearth::testing::engine_options(*model);
  NeuronObservation& observation = model->observation();
  WarmUp how{.n_slots = engine_options.n_slots, .context_tokens = engine_options.context_tokens};
  if (counted) {
    observation.count_activity({.decode_only = true});
    observation.pause_activity(true);
    how.count = [&](bool on) { observation.pause_activity(!on); };
  }
  warm_up(*model, how);
  if (counted) {
    observation.end_counting();
    observation.count_activity({.decode_only = true, .one_of = 2});
  }
  cudaemu::reset_stats();
  {
    Engine engine(*model, engine_options);
    const Answer answer = ask(engine, greedy(long_prompt(*model, n_prompt), 8));
    INFO(answer.finished.error);
    REQUIRE(answer.tokens.size() == 8);
  }
  if (counted) CHECK(observation.take_activity().n_tokens > 0);
  CHECK(cudaemu::stats().launches > 0);
  CHECK(cudaemu::stats().graph_launches > 0);
  CHECK(cudaemu::stats().loaded_kernels == 0);
  CHECK(cudaemu::stats().first_launches == 0);
  CHECK(cudaemu::stats().allocations == 0);
  CHECK(cudaemu::call_counts()["cudaGraphInstantiate"] == 0);
}

TEST_CASE("after the warm-up the first request launches nothing new, records nothing and allocates nothing") {
  SECTION("a model that the device has wholly") {
    check_first_request(options_of("arch/qwen3.gguf", "dense"), 50);
  }
  SECTION("neurons that the CPU shares") {
    LoadOptions options = options_of("arch/bamboo.powerinfer.gguf", "exact");
    options.choose_placement = placed(Share::kThird, false);
    check_first_request(options, 50);
  }
  SECTION("predicted neurons, counted in some steps") {
    LoadOptions options = options_of("arch/bamboo.powerinfer.gguf", "predicted");
    options.choose_placement = placed(Share::kThird, true);
    check_first_request(options, 50, /*counted=*/true);
  }
  SECTION("layers with a window") {
    const WindowModel file("gemma2");
    LoadOptions options = file.options();
    options.n_slots = kSlots;
    options.prefill_chunk = 40;
    check_first_request(options, 90);
  }
  SECTION("layers with states") { check_first_request(options_of("arch/qwen35moe.gguf", "dense"), 50); }
  SECTION("layers in host memory") {
    LoadOptions options = options_of("arch/qwen3.gguf", "dense");
    options.split = DeviceSplit::kLayers;
    const size_t whole = ModelRuntime::load(options)->placed().plan->device.total();
    options.vram_budget_bytes = whole * 5 / 6;
    REQUIRE_FALSE(ModelRuntime::load(options)->placed().plan->whole());
    check_first_request(options, 50);
  }
  SECTION("a context of several classes of lengths") {
    const test::TempFolder folder;
    const std::filesystem::path path = folder / "model.gguf";
    write_changed(std::filesystem::path(source_dir()) / "tests/data/arch/qwen3.gguf", path,
                  {{".context_length", 600}});
    LoadOptions options = options_of(path, "dense");
    options.context_tokens = 600;
    check_first_request(options, 300);
  }
}

}  // namespace
}  // namespace hearth::testing
