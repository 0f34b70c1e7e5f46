// --prompt-products fast: a library computes the products of prompts. On the emulator, this is the emulator's
// own library. Logits are close to the exact ones. Every token gets the same bits however its prompt is cut
// and whatever else is in the step. If no library can be used, this is reported. In the emulator's library a
// token's bits depend on the number of tokens in a call, so that different calls would be noticed.
#include <algorithm>
#include <cmath>
#include <string>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/matmul/cublaslt_products.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"
#include "tests/support/mixed_steps.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

/// A model whose sequences begin with a prompt of n_prompt tokens; the others count as generated.
class WithPrompts final : public ForwardModel {
 public:
  WithPrompts(ForwardModel& model, int n_prompt) : model_(model), n_prompt_(n_prompt) {}
  StepLimits limits() const override { return model_.limits(); }
  StepOutput forward(const Batch& batch) override {
    Batch marked = batch;
    for (int32_t t = 0; t < batch.n_tokens(); ++t) {
      if (batch.positions[static_cast<size_t>(t)] < n_prompt_) marked.prompt_rows.push_back(t);
    }
    for (size_t row = 0; row < batch.logit_rows.size(); ++row) {
      const auto t = static_cast<size_t>(batch.logit_rows[row]);
      if (batch.positions[t] < n_prompt_ - 1) marked.scored_rows.push_back(static_cast<int32_t>(row));
    }
    return model_.forward(marked);
  }

 private:
  ForwardModel& model_;
  int n_prompt_;
};

struct Model {
  std::string name, mode;
};

LoadOptions options_of(const Model& model, bool fast) {
  LoadOptions options = device_options("arch/" + model.name + ".gguf", model.mode);
  options.fast_prompts = fast;
  options.prefetch = false;
  return options;
}

/// Returns whether logits differ by less than half a percent of the largest, on average. The library
/// multiplies numbers of 11 bits, in few layers.
bool is_near(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return false;
  double largest = 0, deviation = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    deviation += std::abs(double{found[i]} - expected[i]) / static_cast<double>(expected.size());
  }
  return deviation < 0.005 * largest;  // false for NaN
}

uint64_t n_products() {
  const std::map<std::string, uint64_t> calls = cudaemu::call_counts();
  const auto found = calls.find("cublasLtMatmul");
  return found == calls.end() ? 0 : found->second;
}

bool says(const ModelRuntime& model, const std::string& text) {
  return std::ranges::any_of(model.placed().notes,
                             [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

/// Models of every kind that a device runs: dense, with a latent and experts, with windows, with zeros.
Model any_model() {
  const std::string name = GENERATE(
      from_range(some_of({"gemma2", "qwen3", "gpt2", "deepseek2-v2", "relu-llama", "bamboo.powerinfer"})));
  if (name == "relu-llama") return {name, "exact"};
  return {name, name == "bamboo.powerinfer" ? "predicted" : "dense"};
}

TEST_CASE("fast prompts: logits come from the library and are near the exact ones") {
  const Model of = any_model();
  INFO(of.name);
  const auto exact = ModelRuntime::load(options_of(of, false)),
             fast = ModelRuntime::load(options_of(of, true));
  CHECK(fast->placed().backend == exact->placed().backend + ", prompts by cuBLASLt 13.1.0");
  CHECK(fast->limits().fast_prompts);
  CHECK_FALSE(exact->limits().fast_prompts);
  const std::vector<int32_t> text = spread_tokens(40, exact->facts().spec.n_vocab);
  WithPrompts exact_prompts(*exact, 40), fast_prompts(*fast, 40);
  cudaemu::reset_stats();
  const std::vector<float> expected = logits_of(exact_prompts, text, 16);
  CHECK(n_products() == 0);
  const std::vector<float> found = logits_of(fast_prompts, text, 16);
  CHECK(n_products() > 0);
  CHECK_FALSE(same_bits(found, expected));
  CHECK(is_near(found, expected));
  // Without prompt tokens there is nothing for the library to compute.
  cudaemu::reset_stats();
  CHECK(same_bits(logits_of(*fast, text, 16), logits_of(*exact, text, 16)));
  CHECK(n_products() == 0);
}

TEST_CASE("fast prompts: only steps without prompt tokens are verified") {
  LoadOptions options = options_of({"qwen2moe", "dense"}, true);
  options.verify = true;
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->limits().fast_prompts);
  const std::vector<int32_t> text = spread_tokens(40, model->facts().spec.n_vocab);
  WithPrompts prompts(*model, 40);
  logits_of(prompts, text, 16);
  CHECK(model->figures().verification.value().layers == 0);
  logits_of(*model, text, 16);
  CHECK(model->figures().verification->layers > 0);
  CHECK(model->figures().verification->mismatches == 0);
}

TEST_CASE("fast prompts: a prompt cut in any way gives the same bits") {
  const Model of = any_model();
  INFO(of.name);
  const auto model = ModelRuntime::load(options_of(of, true));
  const std::vector<int32_t> text = spread_tokens(40, model->facts().spec.n_vocab);
  WithPrompts prompts(*model, 33);
  const std::vector<float> expected = logits_of(prompts, text, 32);
  for (const int chunk : {1, 3, 16}) CHECK(same_bits(logits_of(prompts, text, chunk), expected));
}

TEST_CASE("fast prompts: mixed with others, prompts and generated tokens keep their bits") {
  const Model of = any_model();
  INFO(of.name);
  LoadOptions options = options_of(of, true);
  options.n_slots = 4;
  const auto model = ModelRuntime::load(options);
  WithPrompts prompts(*model, 9);
  cudaemu::reset_stats();
  CHECK(test::rows_changed_by_mixing(prompts, {14, 9, 20, 1}, 3) == 0);
  CHECK(n_products() > 0);
}

TEST_CASE("fast prompts: generated tokens do not use the library, and their steps are recorded") {
  const auto model = ModelRuntime::load(options_of({"qwen3", "dense"}, true));
  const std::vector<int32_t> text = spread_tokens(24, model->facts().spec.n_vocab);
  WithPrompts prompts(*model, 12);
  const std::vector<float> expected = logits_of(prompts, text, 1);
  cudaemu::reset_stats();
  CHECK(same_bits(logits_of(prompts, text, 1), expected));
  CHECK(cudaemu::stats().graph_launches == 12);
  const uint64_t n_of_prompt = n_products();
  WithPrompts none(*model, 0);
  logits_of(none, text, 1);
  CHECK(n_products() == n_of_prompt);
}

/// Prompts of all lengths, sampled, greedy and scored.
std::vector<SequenceRequest> requests(int n) {
  std::mt19937_64 random(21);
  std::vector<SequenceRequest> all;
  for (int i = 0; i < n; ++i) {
    std::vector<int32_t> prompt = some_tokens(1 + static_cast<int>(random() % 40), random() % 5);
    SequenceRequest request = i % 3 == 0 ? scored(prompt, 2) : sampled(prompt, 8, random());
    if (i % 3 == 1) request.n_top_logprobs = 2;
    if (i % 6 == 0) request.max_tokens = 4;
    all.push_back(request);
  }
  return all;
}

std::vector<std::vector<float>> answers(int n_slots, int chunk, const std::vector<SequenceRequest>& asked,
                                        bool at_once) {
  LoadOptions options = options_of({"qwen3", "dense"}, true);
  options.n_slots = n_slots;
  options.prefill_chunk = chunk;
  const auto model = ModelRuntime::load(options);
  Engine engine(*model, {.n_slots = n_slots, .context_tokens = 64, .prefill_chunk = chunk});
  std::vector<std::vector<float>> numbers;
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (const SequenceRequest& request : asked) {
    streams.push_back(submit(engine, request));
    if (!at_once) numbers.push_back(numbers_of(read_all(*streams.back(), 1).front()));
  }
  for (size_t i = 0; at_once && i < streams.size(); ++i)
    numbers.push_back(numbers_of(read_all(*streams[i], 1).front()));
  return numbers;
}

TEST_CASE(
    "fast prompts: an engine gives every request the same numbers, alone and in a crowd, in any chunks") {
  const std::vector<SequenceRequest> asked = requests(10);
  const std::vector<std::vector<float>> alone = answers(1, 32, asked, false);
  for (const int chunk : {5, 32}) {
    INFO("chunk " << chunk);
    CHECK(answers(4, chunk, asked, true) == alone);
  }
}

// The keys and values of a generated token differ from those that it has in a prompt.
TEST_CASE("fast prompts: an answer that comes back in a prompt is computed as a prompt") {
  const bool fast = GENERATE(true, false);
  INFO("fast " << fast);
  LoadOptions options = options_of({"qwen3", "dense"}, fast);
  const auto model = ModelRuntime::load(options);
  const std::vector<int32_t> prompt = some_tokens(18, 4);
  std::vector<int32_t> longer = prompt;
  SequenceRequest second;
  std::vector<float> kept;
  int n_cached = 0;
  {
    Engine engine(*model, {.n_slots = 1, .context_tokens = 64, .prefill_chunk = 32});
    for (const int32_t token : ask(engine, greedy(prompt, 20)).tokens) longer.push_back(token);
    longer.push_back(3);
    second = greedy(longer, 8);
    second.n_top_logprobs = 3;
    const Answer answer = ask(engine, second);
    kept = numbers_of(answer);
    n_cached = answer.finished.n_cached_tokens;
  }
  CHECK(n_cached == (fast ? 16 : 32));
  Engine fresh(*model, {.n_slots = 1, .context_tokens = 64, .prefill_chunk = 32});
  CHECK(numbers_of(ask(fresh, second)) == kept);
}

TEST_CASE("fast prompts: shared neurons are computed exactly, and the log says so") {
  LoadOptions options = options_of({"bamboo.powerinfer", "exact"}, true);
  options.choose_placement = placed(Share::kThird, true);
  const auto model = ModelRuntime::load(options);
  CHECK(model->placed().plan->shares);
  CHECK(says(*model, "--prompt-products fast has no effect"));
  CHECK_FALSE(model->limits().fast_prompts);
  CHECK(model->placed().backend.find("cuBLASLt") == std::string::npos);
  options.fast_prompts = false;
  const auto exact = ModelRuntime::load(options);
  CHECK(exact->placed().plan->device.total() == model->placed().plan->device.total());
  WithPrompts prompts(*model, 20);
  const std::vector<int32_t> text = spread_tokens(20, model->facts().spec.n_vocab);
  CHECK(same_bits(logits_of(prompts, text, 16), logits_of(*exact, text, 16)));
}

TEST_CASE("fast prompts: without a library prompts are computed exactly, and the log says so") {
  const cudaemu::Config before = cudaemu::config();
  const bool absent = GENERATE(true, false);
  INFO("absent " << absent);
  const auto exact = ModelRuntime::load(options_of({"qwen3", "dense"}, false));
  if (absent) {
    cudaemu::config().has_cublaslt = false;
  } else {
    cudaemu::fail_next("cublasLtCreate", 0, cudaErrorUnknown);
  }
  const auto model = ModelRuntime::load(options_of({"qwen3", "dense"}, true));
  cudaemu::config() = before;
  CHECK(says(*model, absent ? "cuBLASLt cannot be loaded (the emulated machine has none)"
                            : "cuBLASLt 13.1.0 failed while starting"));
  CHECK_FALSE(model->limits().fast_prompts);
  CHECK(model->placed().backend == exact->placed().backend);
  CHECK(model->placed().order_hash == 0);
  if (absent) CHECK(model->placed().plan->device.total() == exact->placed().plan->device.total());
  WithPrompts prompts(*model, 20);
  const std::vector<int32_t> text = spread_tokens(20, model->facts().spec.n_vocab);
  CHECK(same_bits(logits_of(prompts, text, 16), logits_of(*exact, text, 16)));
}

TEST_CASE("fast prompts: on the CPU prompts are computed exactly") {
  LoadOptions options = options_of({"qwen3", "dense"}, true);
  options.device = DeviceChoice::kCpu;
  CHECK_FALSE(ModelRuntime::load(options)->limits().fast_prompts);
}

TEST_CASE("fast prompts: the plan counts the library's scratch to the byte") {
  const auto exact = ModelRuntime::load(options_of({"qwen3", "dense"}, false));
  const size_t before = exact->placed().plan->device.scratch;
  const size_t used = cudaemu::stats().vram_used;
  const auto fast = ModelRuntime::load(options_of({"qwen3", "dense"}, true));
  const Plan& plan = *fast->placed().plan;
  CHECK(plan.device.scratch > before);
  CHECK(plan.device.total() - plan.device.scratch == exact->placed().plan->device.total() - before);
  const size_t taken = cudaemu::stats().vram_used - used;
  CHECK(taken >= plan.device.total());
  CHECK(taken < plan.device.total() + 512);
  WithPrompts prompts(*fast, 40);
  logits_of(prompts, spread_tokens(40, fast->facts().spec.n_vocab), 32);
  CHECK(cudaemu::stats().vram_used == used + taken);
}

TEST_CASE("fast prompts: the hash covers which layers the device has, since the others are exact") {
  LoadOptions options = options_of({"qwen3", "dense"}, true);
  options.split = DeviceSplit::kLayers;
  const auto whole = ModelRuntime::load(options);
  CHECK(whole->placed().order_hash != 0);
  options.vram_budget_bytes = whole->placed().plan->device.total() - 1;
  const auto part = ModelRuntime::load(options);
  REQUIRE_FALSE(part->placed().plan->whole());
  REQUIRE_FALSE(part->placed().plan->shares);
  CHECK(part->placed().order_hash != whole->placed().order_hash);
  CHECK(part->limits().fast_prompts);
}

TEST_CASE("fast prompts: a failing library call is reported and leaks nothing") {
  cudaemu::repair_device();
  const std::vector<int32_t> text = spread_tokens(3, 64);
  const std::vector<float> exact =
      logits_of(*ModelRuntime::load(options_of({"qwen3", "dense"}, false)), text, 2);
  const auto run = [&] {
    const auto model = ModelRuntime::load(options_of({"qwen3", "dense"}, true));
    WithPrompts prompts(*model, 3);
    return logits_of(prompts, text, 2);
  };
  cudaemu::reset_stats();
  run();
  const std::map<std::string, uint64_t> calls = cudaemu::call_counts();
  int n_failed = 0, n_without = 0;
  for (const auto& [name, n] : calls) {
    if (!name.starts_with("cublasLt")) continue;
    for (uint64_t i = 0; i < n; i += std::max<uint64_t>(1, n / 4)) {
      INFO(name << ", call " << i << " of " << n);
      const cudaemu::Stats before = cudaemu::stats();
      cudaemu::fail_next(name.c_str(), static_cast<int>(i), cudaErrorUnknown);
      std::string failure;
      std::vector<float> logits;
      try {
        logits = run();
      } catch (const cuda::LibraryError& error) {
        failure = error.what();
      }
      CHECK(cudaemu::stats().vram_used == before.vram_used);
      if (!failure.empty()) {
        ++n_failed;
        CHECK_THAT(failure, ContainsSubstring("cuBLASLt 13.1.0 failed while "));
      } else {  // Hearth's kernels compute some products or all
        ++n_without;
        CHECK(is_near(logits, exact));
      }
    }
  }
  CHECK(n_failed > 0);
  CHECK(n_without > 0);
}

}  // namespace
}  // namespace hearth::testing
