// What the first request finds done on the device: every kernel is loaded before memory is planned.
#include <string>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::testing {
namespace {

constexpr int kSlots = 3;

/// An emulated machine on which no kernel was used yet; the one that was there comes back at the end.
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

/// Long enough for the kernels of prompts, and for cold neurons to be streamed.
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

TEST_CASE("a long prompt is served where kernels would find no memory after the budget was taken") {
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

TEST_CASE("a device without memory for the kernels is not used, and that is said") {
  FreshMachine machine;
  machine->kernel_bytes = size_t{1} << 30;
  LoadOptions options = options_of("arch/qwen3.gguf", "dense");
  CHECK_THROWS_WITH(ModelRuntime::load(options),
                    ContainsSubstring("it has no memory left for Hearth's kernels; take --device auto"));
  options.device = DeviceChoice::kAuto;
  CHECK(ModelRuntime::load(options)->placed().plan == nullptr);
}

}  // namespace
}  // namespace hearth::testing
