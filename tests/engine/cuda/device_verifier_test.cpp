// LoadOptions::verify: the CPU computes a sample of the device's mixtures again. Sound devices give the same
// bits, and a damaged expert is counted and reported.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/forward/mixture_verifier.h"
#include "engine/load_hooks.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

constexpr int kVerifiedTokens = 40;

/// Options that verify a model of tests/data/arch. The device holds the first n_resident experts of each
/// layer.
LoadOptions verified_options(const std::string& name, size_t n_resident, const std::string& mode = "dense") {
  LoadOptions options = device_options("arch/" + name + ".gguf", mode);
  options.verify = true;
  options.choose_placement = [n_resident](const PlanInputs& in, size_t) {
    std::vector<LayerPlacement> layers(static_cast<size_t>(in.spec.n_layers), whole_layer(in.spec));
    for (int i = 0; i < in.spec.n_layers; ++i) {
      std::vector<int32_t>& experts = layers[static_cast<size_t>(i)].experts;
      experts.clear();
      if (!in.spec.layer(i).experts) continue;
      for (size_t e = 0; e < std::min(n_resident, size_t(in.spec.mixture.n_experts)); ++e)
        experts.push_back(static_cast<int32_t>(e));
    }
    return Placement(layers, size_t{1} << 20);
  };
  return options;
}

uint64_t n_mixtures(const ModelSpec& spec) {
  uint64_t n = 0;
  for (int i = 0; i < spec.n_layers; ++i) n += spec.layer(i).experts ? 1 : 0;
  return n;
}

/// Scalar code rounds differently from the device, so nothing is verified on machines without AVX2.
bool verifies() { return supported_isas().front() != Isa::kScalar; }

TEST_CASE("verified steps give the same bits, and the CPU finds no mismatch in them") {
  if (!verifies()) return;
  // Among them are models with a shared expert (one with a gate and one without), with biases, and with zeros
  // that are skipped.
  const std::string name = GENERATE(
      from_range(some_of({"qwen3moe", "qwen2moe", "gpt-oss-mxfp4", "deepseek2-v3", "smallthinker"})));
  const size_t n_resident = GENERATE(size_t{2}, size_t{1000});
  INFO(name << ", " << n_resident << " resident experts");
  LoadOptions options = verified_options(name, n_resident, name == "smallthinker" ? "exact" : "dense");
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& sentence) { warnings.push_back(sentence); };
  const auto model = ModelRuntime::load(options);
  options.verify = false;
  const auto plain = ModelRuntime::load(options);
  CHECK_FALSE(plain->figures().verification);
  const std::vector<int32_t> tokens = spread_tokens(kVerifiedTokens, plain->facts().spec.n_vocab);
  const std::vector<float> expected = logits_of(*plain, tokens, 32);
  const uint64_t n_layers = n_mixtures(model->facts().spec);
  const auto verified = [&] { return model->figures().verification.value(); };
  // The first of the prompt's two steps is verified. Then 120 decode steps are recorded and played
  // back, and one of them is verified.
  CHECK(same_bits(logits_of(*model, tokens, 32), expected));
  CHECK(verified().layers == n_layers);
  for (int repeat = 0; repeat < 3; ++repeat) CHECK(same_bits(logits_of(*model, tokens, 1), expected));
  CHECK(verified().layers == 2 * n_layers);
  CHECK(verified().mismatches == 0);
  CHECK(warnings.empty());
}

TEST_CASE("experts that are copied to the device for a long step are verified too") {
  if (!verifies()) return;
  LoadOptions options = verified_options("qwen3moe", 2);
  options.cpu_share = false;
  const auto model = ModelRuntime::load(options);
  logits_of(*model, spread_tokens(kVerifiedTokens, model->facts().spec.n_vocab), 32);
  CHECK(model->figures().verification->layers == n_mixtures(model->facts().spec));
  CHECK(model->figures().verification->mismatches == 0);
}

/// Flips bits in the first row of each slot's down matrix.
void damage(const DeviceExperts& experts) {
  const int64_t rows_per_slot = experts.down.n_rows / experts.n_slots;
  for (int slot = 0; slot < experts.n_slots; ++slot) {
    auto* const row = const_cast<std::byte*>(experts.down.row(slot * rows_per_slot));
    std::byte bytes[16];
    cuda::check(cudaMemcpy(bytes, row, sizeof bytes, cudaMemcpyDeviceToHost), "reading a slot");
    for (std::byte& byte : bytes) byte ^= std::byte{0x5a};
    cuda::check(cudaMemcpy(row, bytes, sizeof bytes, cudaMemcpyHostToDevice), "damaging a slot");
  }
}

TEST_CASE("damaged experts on the device are counted, and the first is reported") {
  if (!verifies()) return;
  const std::string name = GENERATE(from_range(some_of({"qwen3moe", "gpt-oss-mxfp4"})));
  const size_t n_resident = GENERATE(size_t{2}, size_t{1000});
  INFO(name << ", " << n_resident << " resident experts");
  LoadOptions options = verified_options(name, n_resident);
  options.prefetch = false;  // exchanges would replace damaged experts by sound ones
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& sentence) { warnings.push_back(sentence); };
  LoadHooks hooks;
  hooks.change_experts = [](std::span<const DeviceExperts> experts) { damage(experts[1]); };
  const auto model = ModelRuntime::load(options, hooks);
  const std::vector<int32_t> tokens = spread_tokens(kVerifiedTokens, model->facts().spec.n_vocab);
  logits_of(*model, tokens, 32);
  for (int repeat = 0; repeat < 2; ++repeat) logits_of(*model, tokens, 1);
  const VerificationTotals totals = model->figures().verification.value();
  CHECK(totals.layers == 2 * n_mixtures(model->facts().spec));
  // A verified decode step may choose no damaged expert.
  CHECK(totals.mismatches >= (n_resident > 2 ? 2 : 1));
  CHECK(totals.mismatches <= 2);  // other layers are compared with their own inputs
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(), ContainsSubstring("in layer 1, ") && ContainsSubstring("--device cpu"));
}

TEST_CASE("a model without mixtures on the device says that nothing is verified") {
  const auto note_of = [](const LoadOptions& options) {
    const auto model = ModelRuntime::load(options);
    CHECK_FALSE(model->figures().verification);
    const std::vector<std::string>& notes = model->placed().notes;
    const auto found = std::ranges::find_if(
        notes, [](const std::string& note) { return note.starts_with("--verify on has no effect: "); });
    return found == notes.end() ? "" : found->substr(27);
  };
  LoadOptions options = device_options("arch/llama.gguf", "dense");
  options.verify = true;
  CHECK(note_of(options) == "the model is no mixture of experts");
  CHECK(note_of(verified_options("qwen3moe", 0)) == "the GPU holds none of the model's experts");
  options = verified_options("qwen3moe", 2);
  options.isa = Isa::kScalar;
  CHECK(note_of(options) == "the CPU's scalar code rounds differently from the GPU");
  options.device = DeviceChoice::kCpu;
  CHECK(note_of(options) == "no GPU is used");
  options.verify = false;
  CHECK(note_of(options).empty());
}

}  // namespace
}  // namespace hearth::testing
