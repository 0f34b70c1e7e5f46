// Budgets for the device's memory: a plan's promise equals what is allocated, to the byte, and the logits are
// the same wherever neurons and layers are placed.
#include "engine/residency/plan.h"

#include <algorithm>
#include <cstdint>

#include "engine/model_runtime.h"
#include "engine/placement/place_model.h"
#include "engine/step/fixed_blocks.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"

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
               ContainsSubstring("too small for any part") && ContainsSubstring("--vram-budget"));
  }
  // The message rounds; a plan has the exact sum.
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

TEST_CASE("for any budget the device uses the memory that was planned, and the logits are the same") {
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
    // Layers on the CPU have their keys and values in host memory.
    CHECK(plan.device.kv * static_cast<size_t>(runtime->facts().spec.n_layers) ==
          runtime->placed().kv_bytes * static_cast<size_t>(plan.n_device_layers()));
    cpu_layers |= plan.n_device_layers() < runtime->facts().spec.n_layers;
    shares |= plan.shares;
    if (step == 8) CHECK(plan.whole());
  }
  CHECK(cpu_layers);
  CHECK(shares);
}

TEST_CASE("models with layers of every kind use the memory that was planned") {
  const std::string model =
      GENERATE("apertus", "gemma3n", "gemma4-e2b", "kimi-linear", "llama4", "step35", "qwen35moe", "mamba2");
  INFO(model);
  LoadOptions options = options_of(model, "dense");
  const DeviceBytes whole = ModelRuntime::load(options)->placed().plan->device;
  for (const size_t left_out : {size_t{0}, whole.experts / 2}) {
    options.vram_budget_bytes = whole.total() - left_out;
    cudaemu::reset_stats();
    const auto runtime = ModelRuntime::load(options);
    const size_t planned = runtime->placed().plan->device.total(), granularity = cudaemu::kVramGranularity;
    CHECK(planned <= *options.vram_budget_bytes);
    CHECK(cudaemu::stats().vram_peak == (planned + granularity - 1) / granularity * granularity);
    logits(*runtime);
    CHECK(cudaemu::stats().vram_peak == cudaemu::stats().vram_used);
  }
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
  CHECK(split->placed().plan->n_device_layers() < split->facts().spec.n_layers);
  CHECK_FALSE(split->placed().plan->shares);
  const size_t of_a_layer =
      whole->placed().plan->device.kv / static_cast<size_t>(split->facts().spec.n_layers);
  CHECK(split->placed().plan->device.kv ==
        of_a_layer * static_cast<size_t>(split->placed().plan->n_device_layers()));
  CHECK(split->placed().kv_bytes == whole->placed().kv_bytes);
  CHECK(same_bits(logits(*split), expected));
}

TEST_CASE("a device with the whole model takes as many contexts as its budget has room for") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  options.n_slots = 4;
  options.n_kv_contexts = 1;
  std::vector<float> expected;
  size_t whole = 0, kv = 0, kv_of_all = 0;
  {
    const auto one = ModelRuntime::load(options);
    REQUIRE(one->placed().plan->whole());
    expected = logits(*one);
    whole = one->placed().plan->device.total();
    kv = one->placed().plan->device.kv;
    kv_of_all = one->placed().kv_bytes;
  }
  options.n_kv_contexts = kKvContextsDecided;
  for (const int n : {4, 3, 2, 1}) {
    INFO(n);
    const size_t needed = whole + static_cast<size_t>(n - 1) * kv;
    for (const size_t budget : {needed, needed - 1}) {
      options.vram_budget_bytes = budget;
      cudaemu::reset_stats();
      const auto runtime = ModelRuntime::load(options);
      const Plan& plan = *runtime->placed().plan;
      const int fit = std::max(1, budget == needed ? n : n - 1);
      CHECK(runtime->limits().n_blocks == fit * 48 / 16);
      CHECK(plan.whole() == (budget >= whole));
      if (plan.whole()) CHECK(plan.device.total() == whole + static_cast<size_t>(fit - 1) * kv);
      CHECK(runtime->placed().kv_bytes == static_cast<size_t>(fit) * kv_of_all);
      const size_t granularity = cudaemu::kVramGranularity;
      CHECK(cudaemu::stats().vram_peak ==
            (plan.device.total() + granularity - 1) / granularity * granularity);
      CHECK(same_bits(logits(*runtime), expected));
    }
  }
  // There are never more contexts than slots.
  options.vram_budget_bytes = whole + 20 * kv;
  CHECK(ModelRuntime::load(options)->limits().n_blocks == 4 * 48 / 16);
}

TEST_CASE("with all of a mixture's experts the device also takes more contexts") {
  LoadOptions options = options_of("qwen3moe", "dense");
  options.n_slots = 3;
  options.n_kv_contexts = kKvContextsDecided;
  const auto all = ModelRuntime::load(options);
  CHECK(all->limits().n_blocks == 3 * 48 / 16);
  options.vram_budget_bytes = all->placed().plan->device.total() - 1;
  CHECK(ModelRuntime::load(options)->limits().n_blocks == 2 * 48 / 16);
  options.split = DeviceSplit::kLayers;
  options.vram_budget_bytes = all->placed().plan->device.total() - all->placed().plan->device.kv;
  CHECK(ModelRuntime::load(options)->limits().n_blocks == 48 / 16);
}

/// A LoadOptions::choose_placement that places the model by the rule, with experts on the device or without.
decltype(LoadOptions::choose_placement) with_experts(const PlacementFacts& facts, bool experts = true) {
  return [facts, experts](const PlanInputs& in, size_t budget) {
    PlanInputs inputs = in;
    inputs.experts = experts;
    const std::optional<Placement> placement = place_model(facts, inputs, budget);
    return placement ? *placement : Placement({});
  };
}

int64_t n_resident(const Plan& plan) {
  int64_t n = 0;
  for (const LayerPlacement& layer : plan.layers) n += static_cast<int64_t>(layer.experts.size());
  return n;
}

TEST_CASE(
    "for any budget a mixture's experts take the device memory that was planned, with the same logits") {
  const auto [model, mode] = GENERATE(table<std::string, std::string>({{"mixtral-split", "dense"},
                                                                       {"qwen2moe-fused", "dense"},
                                                                       {"gpt-oss", "dense"},
                                                                       {"gpt-oss-mxfp4", "dense"},
                                                                       {"deepseek2-v3", "dense"},
                                                                       {"smallthinker", "exact"}}));
  INFO(model << " " << mode);
  LoadOptions options = options_of(model, mode);
  options.choose_placement = with_experts(options.placement, false);
  size_t least = 0;
  std::vector<float> expected;
  {
    const auto none = ModelRuntime::load(options);
    least = none->placed().plan->device.total();
    CHECK(n_resident(*none->placed().plan) == 0);
    expected = logits(*none);
  }
  options.choose_placement = with_experts(options.placement);
  size_t whole = 0;
  {
    const auto all = ModelRuntime::load(options);
    const Plan& plan = *all->placed().plan;
    CHECK(plan.whole());
    CHECK(plan.cold_bytes == 0);
    whole = plan.device.total();
    CHECK(whole - least > plan.device.experts);  // they take scratch too
    const auto memory = all->figures().memory;
    CHECK(std::ranges::any_of(memory, [&](const MemoryShare& part) {
      return std::string(part.place) == "vram" && std::string(part.purpose) == "experts" &&
             part.bytes == plan.device.experts;
    }));
    CHECK(same_bits(logits(*all), expected));
  }
  bool in_part = false;
  for (int step = 0; step <= 4; ++step) {
    options.vram_budget_bytes = least + (whole - least) * static_cast<size_t>(step) / 4;
    INFO("budget " << *options.vram_budget_bytes);
    cudaemu::reset_stats();
    const auto runtime = ModelRuntime::load(options);
    const Plan& plan = *runtime->placed().plan;
    CHECK(plan.device.total() <= *options.vram_budget_bytes);
    const size_t granularity = cudaemu::kVramGranularity;
    CHECK(cudaemu::stats().vram_peak == (plan.device.total() + granularity - 1) / granularity * granularity);
    CHECK((n_resident(plan) > 0) == (plan.device.experts > 0));
    CHECK(plan.whole() == (step == 4));
    in_part = in_part || (step < 4 && n_resident(plan) > 0);
    CHECK(same_bits(logits(*runtime), expected));
  }
  CHECK(in_part);
}

TEST_CASE("a mixture whose budget shrinks is placed again with fewer experts") {
  LoadOptions options = options_of("qwen3moe", "dense");
  options.choose_placement = with_experts(options.placement);
  const auto runtime = ModelRuntime::load(options);
  REQUIRE(runtime->placed().plan->whole());
  const std::vector<float> expected = logits(*runtime);
  const size_t whole = runtime->placed().plan->device.total();
  options.vram_budget_bytes = whole - runtime->placed().plan->device.experts / 2;
  runtime->place_again(options);
  const Plan& less = *runtime->placed().plan;
  CHECK(less.device.total() <= *options.vram_budget_bytes);
  CHECK(n_resident(less) > 0);
  CHECK_FALSE(less.whole());
  CHECK(same_bits(logits(*runtime), expected));
  // Below the floor nothing fits; afterward the model can be placed again.
  options.vram_budget_bytes = 1000;
  options.choose_placement = {};
  CHECK_THROWS_WITH(runtime->place_again(options), ContainsSubstring("too small for any part of the model"));
  options.vram_budget_bytes.reset();
  options.choose_placement = with_experts(options.placement);
  runtime->place_again(options);
  CHECK(runtime->placed().plan->device.total() == whole);
  CHECK(same_bits(logits(*runtime), expected));
  // The device grants less than it reports as free.
  cudaemu::fail_next("cudaMalloc", 0, cudaErrorMemoryAllocation);
  runtime->place_again(options);
  CHECK(says(runtime->placed().notes, "does not grant"));
  CHECK(n_resident(*runtime->placed().plan) > 0);
  CHECK_FALSE(runtime->placed().plan->whole());
  CHECK(same_bits(logits(*runtime), expected));
}

TEST_CASE("counts decide which experts are resident, unless they are another model's") {
  LoadOptions options = options_of("qwen3moe", "dense");
  options.choose_placement = with_experts(options.placement);
  const auto all = ModelRuntime::load(options);
  const ModelSpec& spec = all->facts().spec;
  const int n_used = spec.mixture.n_used, n_experts = spec.mixture.n_experts;
  const DeviceBytes& bytes = all->placed().plan->device;
  options.vram_budget_bytes = bytes.total() - bytes.experts / 4;
  // The last experts are always chosen, the others never.
  ActivityCounts counts(spec.n_layers, n_experts, true);
  counts.n_tokens = 100;
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    for (int e = n_experts - n_used; e < n_experts; ++e) counts.active[counts.index(layer, e)] = 100;
  }
  PlacementFacts facts = options.placement;
  facts.activity = counted_activity(counts, "by hand");
  options.choose_placement = with_experts(facts);
  const auto counted = ModelRuntime::load(options);
  bool in_part = false;
  for (const LayerPlacement& layer : counted->placed().plan->layers) {
    const auto n = static_cast<int>(layer.experts.size());
    in_part = in_part || (n > 0 && n < n_experts);
    for (int e = n_experts - std::min(n, n_used); e < n_experts; ++e)
      CHECK(std::ranges::count(layer.experts, e) == 1);
  }
  CHECK(in_part);
  CHECK(same_bits(logits(*counted), logits(*all)));

  facts.activity = dense_activity(spec);  // of neurons
  options.choose_placement = with_experts(facts);
  const auto ignored = ModelRuntime::load(options);
  for (const LayerPlacement& layer : ignored->placed().plan->layers) {
    if (!layer.experts.empty()) CHECK(layer.experts.front() == 0);
  }
}

TEST_CASE("split by layers, all of a layer's experts are on the device or none") {
  LoadOptions options = options_of("qwen3moe", "dense");
  options.split = DeviceSplit::kLayers;
  options.choose_placement = with_experts(options.placement);
  const auto all = ModelRuntime::load(options);
  REQUIRE(all->placed().plan->whole());
  options.vram_budget_bytes = all->placed().plan->device.total() - 1;
  const auto split = ModelRuntime::load(options);
  const Plan& plan = *split->placed().plan;
  CHECK(plan.n_device_layers() == split->facts().spec.n_layers);
  CHECK(n_resident(plan) > 0);
  for (const LayerPlacement& layer : plan.layers)
    CHECK((layer.experts.empty() ||
           static_cast<int>(layer.experts.size()) == split->facts().spec.mixture.n_experts));
  CHECK(same_bits(logits(*split), logits(*all)));
}

TEST_CASE("loading reports progress while experts are copied") {
  LoadOptions options = options_of("qwen3moe", "dense");
  options.choose_placement = with_experts(options.placement);
  std::vector<double> fractions;
  options.progress = [&](double fraction) { fractions.push_back(fraction); };
  const auto runtime = ModelRuntime::load(options);
  CHECK(std::ranges::is_sorted(fractions));
  CHECK(static_cast<int64_t>(fractions.size()) > n_resident(*runtime->placed().plan));
}

TEST_CASE("experts that the CPU computes in any case are named in the plan, and contexts get the memory") {
  LoadOptions options = options_of("qwen2moe", "exact");
  options.ffn_activation = "relu";
  options.n_slots = 3;
  options.n_kv_contexts = kKvContextsDecided;
  std::optional<Plan> plan;
  options.choose_placement = [&](const PlanInputs& in, size_t budget) {
    PlanInputs inputs = in;
    inputs.experts = true;
    const Placement placement = *place_model(PlacementFacts{.machine = slow_desktop()}, inputs, budget);
    plan = placed_plan(inputs, placement, budget);
    return placement;
  };
  const auto runtime = ModelRuntime::load(options);
  REQUIRE(runtime->placed().sparsity.mode == Sparsity::kExact);
  CHECK(n_resident(*plan) == 0);
  CHECK(plan->is_complete());
  CHECK_FALSE(plan->whole());
  CHECK(says(plan->lines(runtime->facts().spec), "cannot be on the GPU: the CPU skips zeros in the shared"));
  CHECK(runtime->limits().n_blocks == 3 * 48 / 16);
}

TEST_CASE("a device that grants less than the contexts need is planned for again") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  options.n_slots = 4;
  options.n_kv_contexts = kKvContextsDecided;
  const auto all = ModelRuntime::load(options);
  const std::vector<float> expected = logits(*all);
  cudaemu::fail_next("cudaMalloc", 0, cudaErrorMemoryAllocation);
  const auto runtime = ModelRuntime::load(options);
  CHECK(says(runtime->placed().notes, "does not grant"));
  CHECK(runtime->limits().n_blocks < all->limits().n_blocks);
  CHECK(same_bits(logits(*runtime), expected));
}

/// The logits of the last token of each step, for two sequences whose steps have these numbers of tokens.
std::vector<float> logits_of_steps(ModelRuntime& model, const std::vector<int>& first,
                                   const std::vector<int>& second) {
  const FixedBlocks blocks(model.limits(), 2);
  const std::vector<int32_t> tokens = spread_tokens(64, model.facts().spec.n_vocab);
  std::vector<float> logits;
  int positions[2] = {};
  for (size_t step = 0; step < first.size(); ++step) {
    Batch batch;
    for (int slot = 0; slot < 2; ++slot) {
      const int n = (slot == 0 ? first : second)[step];
      for (int i = 0; i < n; ++i) {
        const int position = positions[slot]++;
        batch.tokens.push_back(tokens[static_cast<size_t>((position + 11 * slot) % 64)]);
        batch.positions.push_back(position);
        batch.slots.push_back(slot);
      }
      if (n > 0) batch.logit_rows.push_back(batch.n_tokens() - 1);
    }
    blocks.set_tables(batch);
    const std::span<const float> rows = model.forward(batch).logits;
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

TEST_CASE("in long steps the device computes layers that lie in host memory, with the same bits") {
  // Biases and norms of q and k, norms after the layers, parallel attention, a window, grouped heads.
  const std::string model = GENERATE("llama", "qwen2", "qwen3", "gemma2", "command-r", "mistral3", "olmo2");
  INFO(model);
  LoadOptions options = options_of(model, "dense");
  options.n_slots = 2;
  options.prefill_chunk = 32;
  // A machine on which steps of 12 tokens count as long for weights of four bytes.
  options.prompt_rates = {.to_device_bytes_per_s = 25e9, .cpu_multiply_adds_per_s = 7e10};
  // Long and short steps alternate, so that keys and values go both ways; some steps have two sequences.
  const std::vector<int> first = {14, 3, 1, 16, 1, 0}, second = {0, 13, 1, 1, 20, 13};
  const auto whole = ModelRuntime::load(options);
  REQUIRE(whole->placed().plan->whole());
  cudaemu::reset_stats();
  const std::vector<float> expected = logits_of_steps(*whole, first, second);
  const uint64_t inputs = cudaemu::stats().h2d_bytes;
  options.split = DeviceSplit::kLayers;
  options.vram_budget_bytes = whole->placed().plan->device.total() - 1;
  for (const bool pins : {true, false}) {
    INFO("page-locked: " << pins);
    if (!pins) cudaemu::fail_next("cudaHostRegister", 0, cudaErrorMemoryAllocation, 1000);
    const auto split = ModelRuntime::load(options);
    cudaemu::fail_next("cudaHostRegister", 1 << 30, cudaErrorMemoryAllocation);
    CHECK(says(split->placed().notes, "host memory could not be page-locked") == !pins);
    const Plan& plan = *split->placed().plan;
    REQUIRE(plan.n_device_layers() < split->facts().spec.n_layers);
    REQUIRE(plan.stream_kv_bytes > 0);
    CHECK(plan.device.total() <= *options.vram_budget_bytes);
    cudaemu::reset_stats();
    CHECK(same_bits(logits_of_steps(*split, first, second), expected));
    // At least one layer was copied, in five of the steps.
    const size_t of_layer =
        split->facts().weight_bytes / static_cast<size_t>(2 * split->facts().spec.n_layers);
    CHECK(cudaemu::stats().h2d_bytes > inputs + 5 * of_layer);
    if (pins) CHECK(cudaemu::stats().pageable_async == 0);
  }
}

TEST_CASE("layers in host memory that the device cannot compute stay on the CPU in long steps") {
  const std::string model = GENERATE("opt", "gpt2");  // biases in the FFN
  INFO(model);
  LoadOptions options = options_of(model, "dense");
  options.n_slots = 2;
  options.prefill_chunk = 32;
  const auto whole = ModelRuntime::load(options);
  const std::vector<float> expected = logits_of_steps(*whole, {20, 1}, {0, 14});
  options.split = DeviceSplit::kLayers;
  options.vram_budget_bytes = whole->placed().plan->device.total() - 1;
  const auto split = ModelRuntime::load(options);
  CHECK(split->placed().plan->stream_kv_bytes == 0);
  CHECK(split->placed().plan->device.stream == 0);
  CHECK(same_bits(logits_of_steps(*split, {20, 1}, {0, 14}), expected));
}

/// The logits of the last token of a prompt that is read in steps of the model's own size.
std::vector<float> last_logits(ModelRuntime& model, const std::vector<int32_t>& tokens) {
  const FixedBlocks blocks(model.limits(), 1);
  const auto step = static_cast<size_t>(model.facts().prompt_step.tokens);
  std::vector<float> logits;
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    Batch batch;
    for (size_t i = begin; i < std::min(begin + step, tokens.size()); ++i) {
      batch.tokens.push_back(tokens[i]);
      batch.positions.push_back(static_cast<int32_t>(i));
      batch.slots.push_back(0);
    }
    batch.logit_rows.push_back(batch.n_tokens() - 1);
    blocks.set_tables(batch);
    const std::span<const float> rows = model.forward(batch).logits;
    logits.assign(rows.begin(), rows.end());
  }
  return logits;
}

TEST_CASE("prompts have the same bits in steps that are chosen as in steps of 128") {
  LoadOptions options = options_of("llama", "dense");
  options.context_tokens = 0;
  options.prefill_chunk = 128;
  const auto fixed = ModelRuntime::load(options);
  options.prefill_chunk = 0;
  const auto chosen = ModelRuntime::load(options);
  const int n = std::min(300, chosen->facts().context_tokens);
  CHECK(fixed->facts().prompt_step.tokens == 128);
  CHECK(chosen->facts().prompt_step.tokens == std::min(512, std::max(128, chosen->facts().context_tokens)));
  CHECK(chosen->facts().prompt_step.beside_streams == 128);
  const std::vector<int32_t> tokens = spread_tokens(n, fixed->facts().spec.n_vocab);
  CHECK(same_bits(last_logits(*fixed, tokens), last_logits(*chosen, tokens)));
}

TEST_CASE("a model that does not fit a device as it must, as a whole, runs on the CPU") {
  LoadOptions options = options_of("gemma4-e2b", "dense");
  const DeviceBytes whole = ModelRuntime::load(options)->placed().plan->device;
  struct Vram {
    explicit Vram(size_t bytes) { cudaemu::config().vram_bytes = bytes; }
    ~Vram() { cudaemu::config().vram_bytes = before; }
    const size_t before = cudaemu::config().vram_bytes;
  };
  // Loading leaves 256 MiB free.
  const Vram vram((size_t{256} << 20) + whole.total() - whole.hot / 2);
  options.device = DeviceChoice::kAuto;
  const auto on_cpu = ModelRuntime::load(options);
  CHECK(on_cpu->placed().plan == nullptr);
  CHECK(says(on_cpu->placed().notes, "the model runs on it only as a whole"));
  options.device = DeviceChoice::kCpu;
  CHECK(logits(*on_cpu) == logits(*ModelRuntime::load(options)));
}

TEST_CASE("a device that grants less than it reports as free gets a smaller plan") {
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

TEST_CASE("cold neurons that cannot be page-locked are still computed, and the cost is reported") {
  LoadOptions options = options_of("bamboo.powerinfer", "exact");
  const auto whole = ModelRuntime::load(options);
  options.vram_budget_bytes = whole->placed().plan->device.total() - whole->placed().plan->device.hot / 8;
  cudaemu::fail_next("cudaHostRegister", 0, cudaErrorMemoryAllocation);
  const auto runtime = ModelRuntime::load(options);
  REQUIRE(runtime->placed().plan->shares);
  CHECK(says(runtime->placed().notes, "cold neurons could not be page-locked"));
  CHECK(same_bits(logits(*runtime), logits(*whole)));
}

TEST_CASE("with a limit on page-locking some layers are page-locked, the others use a buffer") {
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
    CHECK_FALSE(says(runtime->placed().notes, "cold neurons could not be page-locked"));
  }
  struct Limit {
    ~Limit() { cudaemu::config().memlock_bytes = SIZE_MAX; }
  } limit;
  // Room for all layers but one, and for none.
  for (const size_t bytes : {all - 1, size_t{0}}) {
    INFO(bytes << " of " << all);
    cudaemu::config().memlock_bytes = bytes;
    const auto runtime = ModelRuntime::load(options);
    CHECK(says(runtime->placed().notes, "cold neurons could not be page-locked"));
    CHECK((cudaemu::stats().registered_used > 0) == (bytes > 0));
    CHECK(cudaemu::stats().registered_used <= bytes);
    CHECK(same_bits(logits(*runtime), expected));
  }
}

TEST_CASE("loading reports progress while layers are copied and page-locked") {
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

TEST_CASE("a plan is printed as lines and as JSON") {
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

  options = options_of("qwen3moe", "dense");
  options.choose_placement = with_experts(options.placement);
  const auto mixture = ModelRuntime::load(options);
  options.vram_budget_bytes = mixture->placed().plan->device.total() - 1;
  const auto part = ModelRuntime::load(options);
  const Plan& of_part = *part->placed().plan;
  CHECK(says(mixture->placed().plan->lines(mixture->facts().spec), "the whole model"));
  CHECK(says(of_part.lines(part->facts().spec), std::to_string(n_resident(of_part)) + " of "));
  CHECK(says(of_part.lines(part->facts().spec), "all but the missing experts of"));
  CHECK_THAT(
      of_part.json(part->facts().spec),
      ContainsSubstring("\"experts\": " + std::to_string(of_part.device.experts)) &&
          ContainsSubstring("\"experts\": " + std::to_string(of_part.layers.back().experts.size()) + "}"));
}

}  // namespace
}  // namespace hearth::testing
