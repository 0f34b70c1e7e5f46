// Budgets of the device's memory: what a plan promises is what is taken, to the byte, and wherever neurons
// and layers lie, the logits are the same.
#include "engine/residency/plan.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/model_runtime.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/golden.h"

namespace hearth::testing {
namespace {

constexpr int kTokens = 20;

LoadOptions options_of(const std::string& model, const std::string& mode) {
  LoadOptions options = device_options("arch/" + model + ".gguf", mode);
  options.n_threads = 2;
  options.context_tokens = 48;
  options.prefill_chunk = 16;
  options.prefetch = false;
  return options;
}

std::vector<float> logits(ModelRuntime& model) {
  return logits_of(model, spread_tokens(kTokens, model.facts().spec.n_vocab), 7);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool says(const std::vector<std::string>& notes, const std::string& text) {
  for (const std::string& note : notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

size_t least_budget(LoadOptions options) {
  options.vram_budget_bytes = 1;
  try {
    ModelRuntime::load(options);
  } catch (const std::invalid_argument& error) {
    CHECK_THAT(error.what(),
               ContainsSubstring("holds nothing of the model") && ContainsSubstring("--vram-budget"));
  }
  // The sentence rounds; the sum itself is asked of a plan.
  options.vram_budget_bytes.reset();
  const auto whole = ModelRuntime::load(options);
  REQUIRE(whole->placed().plan->whole());
  size_t low = 0, high = whole->placed().plan->device.total();
  while (high - low > 64) {
    const size_t middle = low + (high - low) / 2;
    options.vram_budget_bytes = middle;
    try {
      ModelRuntime::load(options);
      high = middle;
    } catch (const std::invalid_argument&) {
      low = middle;
    }
  }
  return high;
}

TEST_CASE("whatever the budget, the device's memory is what the plan says, and the logits are the same") {
  const auto [model, mode] =
      GENERATE(std::pair<std::string, std::string>{"bamboo.powerinfer", "exact"},
               std::pair<std::string, std::string>{"opt.powerinfer", "predicted"},
               std::pair<std::string, std::string>{"relu-llama", "exact"},
               std::pair<std::string, std::string>{"falcon-7b.powerinfer", "predicted"});
  INFO(model << " " << mode);
  LoadOptions options = options_of(model, mode);
  const size_t least = least_budget(options);
  std::vector<float> expected;
  size_t whole = 0;
  {
    const auto runtime = ModelRuntime::load(options);
    whole = runtime->placed().plan->device.total();
    expected = logits(*runtime);
  }
  bool cpu_layers = false, shares = false;
  for (int step = 0; step <= 8; ++step) {
    const size_t budget = least + (whole - least) * static_cast<size_t>(step) / 8;
    INFO("budget " << budget);
    options.vram_budget_bytes = budget;
    cudaemu::reset_stats();
    const auto runtime = ModelRuntime::load(options);
    const Plan& plan = *runtime->placed().plan;
    CHECK(plan.device.total() <= budget);
    CHECK(same_bits(logits(*runtime), expected));
    // One allocation, rounded up as the device does.
    const size_t granularity = cudaemu::kVramGranularity;
    CHECK(cudaemu::stats().vram_peak == (plan.device.total() + granularity - 1) / granularity * granularity);
    CHECK(cudaemu::stats().vram_peak == cudaemu::stats().vram_used);
    cpu_layers |= plan.n_device_layers() < runtime->facts().spec.n_layers;
    shares |= plan.shares;
    if (step == 8) CHECK(plan.whole());
  }
  CHECK(cpu_layers);
  CHECK(shares);
}

TEST_CASE("layers may be split between the device and the CPU instead of neurons") {
  const std::string model = GENERATE("qwen2", "falcon-40b", "opt");
  INFO(model);
  LoadOptions options = options_of(model, "dense");
  const auto whole = ModelRuntime::load(options);
  const std::vector<float> expected = logits(*whole);
  options.split = DeviceSplit::kLayers;
  options.vram_budget_bytes = whole->placed().plan->device.total() - 1;
  const auto split = ModelRuntime::load(options);
  CHECK(split->placed().plan->n_device_layers() == split->facts().spec.n_layers - 1);
  CHECK_FALSE(split->placed().plan->shares);
  CHECK(same_bits(logits(*split), expected));
}

TEST_CASE("a device that does not grant what it has free is planned for again, smaller") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  const std::vector<float> expected = logits(*ModelRuntime::load(options));
  cudaemu::fail_next("cudaMalloc", 0, cudaErrorMemoryAllocation);
  const auto runtime = ModelRuntime::load(options);
  CHECK(says(runtime->placed().notes, "does not grant"));
  CHECK(says(runtime->placed().notes, "less"));
  CHECK(same_bits(logits(*runtime), expected));
  options.vram_budget_bytes = least_budget(options);
  cudaemu::fail_next("cudaMalloc", 0, cudaErrorMemoryAllocation);
  CHECK_THROWS_WITH(ModelRuntime::load(options), ContainsSubstring("smallest plan"));
}

TEST_CASE("cold neurons that cannot be page-locked are computed all the same, and what that costs is said") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  const auto whole = ModelRuntime::load(options);
  options.vram_budget_bytes = whole->placed().plan->device.total() - whole->placed().plan->device.hot / 8;
  cudaemu::fail_next("cudaHostRegister", 0, cudaErrorMemoryAllocation);
  const auto runtime = ModelRuntime::load(options);
  REQUIRE(runtime->placed().plan->shares);
  CHECK(says(runtime->placed().notes, "could not be page-locked"));
  CHECK(same_bits(logits(*runtime), logits(*whole)));
}

TEST_CASE("where only some layers may be page-locked, those are, and the others go through a buffer") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  options.choose_placement = placed(Share::kThird, false, 4, 1 << 20);
  options.prefetch = true;
  std::vector<float> expected;
  size_t all = 0;
  {
    cudaemu::reset_stats();
    const auto runtime = ModelRuntime::load(options);
    REQUIRE(cudaemu::call_counts()["cudaHostRegister"] >= 2);
    all = cudaemu::stats().registered_used;
    expected = logits(*runtime);
    CHECK_FALSE(says(runtime->placed().notes, "could not be page-locked"));
  }
  struct Limit {
    ~Limit() { cudaemu::config().memlock_bytes = SIZE_MAX; }
  } limit;
  // Room for all layers but one, and for none.
  for (const size_t bytes : {all - 1, size_t{0}}) {
    INFO(bytes << " of " << all);
    cudaemu::config().memlock_bytes = bytes;
    const auto runtime = ModelRuntime::load(options);
    CHECK(says(runtime->placed().notes, "could not be page-locked"));
    CHECK((cudaemu::stats().registered_used > 0) == (bytes > 0));
    CHECK(cudaemu::stats().registered_used <= bytes);
    CHECK(same_bits(logits(*runtime), expected));
  }
}

TEST_CASE("the progress of a load goes on while layers are copied and page-locked") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  options.n_threads = 8;  // at least as many layers are filled at once as there are
  options.choose_placement = placed(Share::kThird, false);
  cudaemu::reset_stats();
  std::vector<double> fractions;
  std::vector<uint64_t> n_locked;
  options.progress = [&](double fraction) {
    fractions.push_back(fraction);
    n_locked.push_back(cudaemu::call_counts()["cudaHostRegister"]);
  };
  const auto runtime = ModelRuntime::load(options);
  CHECK(std::ranges::is_sorted(fractions));
  REQUIRE(n_locked.back() > 1);
  for (uint64_t n = 1; n <= n_locked.back(); ++n) CHECK(std::ranges::count(n_locked, n) > 0);
}

TEST_CASE("a plan is told in lines and as JSON") {
  LoadOptions options = options_of("bamboo.powerinfer", "predicted");
  const size_t whole = ModelRuntime::load(options)->placed().plan->device.total();
  options.vram_budget_bytes = whole - whole / 16;
  const auto runtime = ModelRuntime::load(options);
  const Plan& plan = *runtime->placed().plan;
  const std::vector<std::string> lines = plan.lines(runtime->facts().spec);
  CHECK(lines.size() == 4);
  CHECK(says(lines, "of a budget of"));
  CHECK(says(lines, "cold neurons"));
  const std::string json = plan.json(runtime->facts().spec);
  CHECK(json.find("\"total\": " + std::to_string(plan.device.total())) != std::string::npos);
}

}  // namespace
}  // namespace hearth::testing
