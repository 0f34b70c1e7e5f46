// Whole models on the device and on the CPU give the same logits.
//
// Where no sum over neurons is split (a dense FFN with the file's own down projection) the bits are equal.
// Otherwise the device adds integers where the CPU alone adds floats, and the last digits differ.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/model_runtime.h"
#include "engine/step/fixed_blocks.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kForwardTokens = 24;

fs::path data() { return fs::path(source_dir()) / "tests/data"; }

LoadOptions options_of(const fs::path& path, const std::string& mode, bool on_device) {
  LoadOptions options = device_options(path, mode);
  if (!on_device) options.device = DeviceChoice::kCpu;
  return options;
}

std::vector<float> logits_of_run(ModelRuntime& model, int chunk) {
  return logits_of(model, spread_tokens(kForwardTokens, model.facts().spec.n_vocab), chunk);
}

/// Largest difference, as a share of the logits' standard deviation.
double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, squares = 0, worst = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    sum += b[i];
    squares += static_cast<double>(b[i]) * b[i];
  }
  const auto n = static_cast<double>(b.size());
  return worst / std::sqrt(squares / n - sum / n * (sum / n));
}

// The models have two layers of random weights. A different last digit of a sum may change a later
// activation's quant by one, which is 2^-15 of its span's largest value.
constexpr double kTolerance = 1e-3;

/// Scalar code has no fused multiply-adds: on machines without AVX2 the last digits may differ.
bool device_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (supported_isas().front() == Isa::kScalar) return worst_difference(a, b) < kTolerance;
  return same_bits(a, b);
}

TEST_CASE("plain models give the CPU's bits on the device") {
  const std::string name = GENERATE(from_range(
      some_of({"llama", "llama-gqa-tied", "llama-llama3", "qwen2", "qwen2-yarn", "qwen3", "relu-llama",
               "falcon-7b", "falcon-40b", "opt", "command-r-plus", "stablelm-parallel", "mistral3"})));
  const fs::path path = data() / "arch" / (name + ".gguf");
  INFO(name);
  const auto on_cpu = ModelRuntime::load(options_of(path, "dense", false));
  const auto on_device = ModelRuntime::load(options_of(path, "dense", true));
  CHECK(on_device->placed().backend.starts_with("CUDA "));
  const std::vector<float> expected = logits_of_run(*on_cpu, kForwardTokens);
  CHECK(device_bits(logits_of_run(*on_device, kForwardTokens), expected));
  CHECK(device_bits(logits_of_run(*on_device, 5), expected));
}

TEST_CASE("today's dense models give the CPU's bits on the device") {
  const std::string name = GENERATE(from_range(some_of({"gemma",      "gemma2",
                                                        "gemma3",     "granite",
                                                        "olmo2",      "olmo3",
                                                        "phi2",       "phi3",
                                                        "phi3-long",  "glm4",
                                                        "nemotron",   "command-r",
                                                        "cohere2",    "starcoder2",
                                                        "gpt2",       "gptneox",
                                                        "stablelm",   "smollm3",
                                                        "exaone4",    "hunyuan-dense",
                                                        "gemma4",     "qwen3vl",
                                                        "qwen35",     "qwen35-tied",
                                                        "nemotron_h", "granitehybrid-dense",
                                                        "falcon-h1",  "lfm2",
                                                        "lfm2-wide",  "seed_oss",
                                                        "ernie4_5",   "arcee",
                                                        "mamba2",     "gemma4-e2b",
                                                        "apertus",    "gemma3n"})));
  const fs::path path = data() / "arch" / (name + ".gguf");
  INFO(name);
  const auto on_cpu = ModelRuntime::load(options_of(path, "dense", false));
  const auto on_device = ModelRuntime::load(options_of(path, "dense", true));
  CHECK(on_device->placed().plan->whole());
  const std::vector<float> expected = logits_of_run(*on_cpu, kForwardTokens);
  CHECK(device_bits(logits_of_run(*on_device, kForwardTokens), expected));
  CHECK(device_bits(logits_of_run(*on_device, 1),
                    expected));  // steps of one shape are recorded and played back
}

/// Returns the number of experts that the plan gives to the device, in all layers together.
size_t n_resident(const Plan& plan) {
  size_t n = 0;
  for (const LayerPlacement& layer : plan.layers) n += layer.experts.size();
  return n;
}

/// Sums the model's LayerExpertTotals over its layers. Checks that each layer with experts has as many pairs
/// as n_tokens choose.
LayerExpertTotals sum_of_layers(const ModelRuntime& model, int n_tokens) {
  const ModelSpec& spec = model.facts().spec;
  const std::vector<LayerExpertTotals> layers = model.figures().expert_layers;
  LayerExpertTotals sum;
  size_t n = 0;
  for (int i = 0; i < spec.n_layers; ++i) {
    if (!spec.layer(i).experts) continue;
    REQUIRE(n < layers.size());
    const LayerExpertTotals& layer = layers[n++];
    CHECK(layer.layer == i);
    CHECK(layer.vram + layer.ram + layer.streamed == static_cast<uint64_t>(n_tokens * spec.mixture.n_used));
    sum.vram += layer.vram;
    sum.ram += layer.ram;
    sum.streamed += layer.streamed;
  }
  CHECK(n == layers.size());
  return sum;
}

TEST_CASE("a mixture gives the CPU's bits wherever its experts are") {
  const std::string name = GENERATE(from_range(some_of({"mixtral",
                                                        "mixtral-split",
                                                        "olmoe",
                                                        "qwen2moe",
                                                        "qwen2moe-fused",
                                                        "qwen3moe",
                                                        "granitemoe-shared",
                                                        "gpt-oss",
                                                        "gpt-oss-mxfp4",
                                                        "glm4moe",
                                                        "ernie4_5-moe",
                                                        "minimax-m2",
                                                        "deepseek",
                                                        "deepseek2-lite",
                                                        "deepseek2-v2",
                                                        "deepseek2-v3",
                                                        "smallthinker",
                                                        "qwen35moe",
                                                        "qwen3next",
                                                        "nemotron_h_moe",
                                                        "granitehybrid",
                                                        "lfm2moe",
                                                        "mistral4",
                                                        "mellum",
                                                        "hunyuan-moe",
                                                        "bailingmoe2",
                                                        "dots1",
                                                        "exaone-moe",
                                                        "mimo2",
                                                        "deepseek32",
                                                        "glm-dsa",
                                                        "gemma4-moe",
                                                        "gemma4-moe-split",
                                                        "afmoe",
                                                        "laguna",
                                                        "step35",
                                                        "llama4",
                                                        "llama4-maverick",
                                                        "kimi-linear"})));
  const fs::path path = data() / "arch" / (name + ".gguf");
  INFO(name);
  const auto on_cpu = ModelRuntime::load(options_of(path, "dense", false));
  const std::vector<float> expected = logits_of_run(*on_cpu, kForwardTokens);
  LoadOptions options = options_of(path, "dense", true);
  const auto all = ModelRuntime::load(options);
  const DeviceBytes bytes = all->placed().plan->device;
  REQUIRE(n_resident(*all->placed().plan) > 0);
  CHECK(all->placed().plan->cold_bytes == 0);
  CHECK(on_cpu->figures().expert_layers.empty());
  std::set<size_t> residents;
  // With cpu_share false, missing experts are copied to the device in prompts.
  for (const auto& [left_out, cpu_share] :
       {std::pair(size_t{0}, true), std::pair(bytes.experts / 4, true),
        std::pair(bytes.experts * 3 / 4, true), std::pair(bytes.experts / 2, false)}) {
    options.vram_budget_bytes = bytes.total() - left_out;
    options.cpu_share = cpu_share;
    const auto on_device = ModelRuntime::load(options);
    CHECK(on_device->placed().backend.starts_with("CUDA "));
    const Plan& plan = *on_device->placed().plan;
    INFO(n_resident(plan) << " resident experts");
    residents.insert(n_resident(plan));
    CHECK(device_bits(logits_of_run(*on_device, kForwardTokens), expected));
    CHECK(device_bits(logits_of_run(*on_device, 5), expected));
    CHECK(device_bits(logits_of_run(*on_device, 1),
                      expected));  // steps of one shape are recorded and played back
    const LayerExpertTotals pairs = sum_of_layers(*on_device, 3 * kForwardTokens);
    if (left_out == 0) CHECK(pairs.ram + pairs.streamed == 0);
  }
  CHECK(residents.size() > 1);
}

TEST_CASE("a mixture gives the CPU's bits while experts are exchanged") {
  const std::string name = GENERATE(from_range(
      some_of({"qwen3moe", "gpt-oss-mxfp4", "deepseek2-v3", "smallthinker", "gemma4-moe", "llama4"})));
  INFO(name);
  LoadOptions options =
      options_of(data() / "arch" / (name + ".gguf"), name == "smallthinker" ? "exact" : "dense", false);
  const auto on_cpu = ModelRuntime::load(options);
  const std::vector<int32_t> tokens = spread_tokens(60, on_cpu->facts().spec.n_vocab);
  const std::vector<float> expected = logits_of(*on_cpu, tokens, 32);
  options.device = DeviceChoice::kCuda;
  // The device holds the first two experts of each layer, whatever the tokens choose.
  options.choose_placement = [](const PlanInputs& in, size_t) {
    std::vector<LayerPlacement> layers(static_cast<size_t>(in.spec.n_layers), whole_layer(in.spec));
    for (int i = 0; i < in.spec.n_layers; ++i) {
      if (in.spec.layer(i).experts) layers[static_cast<size_t>(i)].experts = {0, 1};
    }
    return Placement(layers, size_t{1} << 20);
  };
  const auto model = ModelRuntime::load(options);
  for (int repeat = 0; repeat < 3; ++repeat) CHECK(device_bits(logits_of(*model, tokens, 1), expected));
  REQUIRE(model->figures().exchange);
  const ExchangeTotals exchanged = *model->figures().exchange;
  CHECK(exchanged.experts > 0);
  CHECK(exchanged.bytes % exchanged.experts == 0);
  // Reading the figures again allocates nothing.
  ModelFigures figures;
  model->read_figures(figures);
  const LayerExpertTotals* const layers = figures.expert_layers.data();
  model->read_figures(figures);
  CHECK(figures.expert_layers.data() == layers);
  // Long steps leave the experts where they are.
  CHECK(device_bits(logits_of(*model, tokens, 40), expected));
  CHECK(model->figures().exchange->experts == exchanged.experts);
  const LayerExpertTotals pairs = sum_of_layers(*model, 4 * 60);
  CHECK(pairs.vram > 0);
  CHECK(pairs.ram > 0);
  options.prefetch = false;
  const auto fixed = ModelRuntime::load(options);
  CHECK(device_bits(logits_of(*fixed, tokens, 1), expected));
  CHECK_FALSE(fixed->figures().exchange);
}

TEST_CASE("a mixture that skips zeros gives the CPU's bits and counts wherever its experts are") {
  // The models have no shared expert, one that is computed whole, and one whose zeros the CPU skips. In the
  // last case, the device holds no experts.
  const std::string name = GENERATE("smallthinker", "deepseek", "qwen2moe");
  INFO(name);
  LoadOptions options = options_of(data() / "arch" / (name + ".gguf"), "exact", false);
  if (name != "smallthinker") options.ffn_activation = "relu";
  const auto on_cpu = ModelRuntime::load(options);
  on_cpu->observation().reset_activity();
  const std::vector<float> expected = logits_of_run(*on_cpu, 5);
  const NeuronActivity activity = on_cpu->observation().activity();
  CHECK(activity.active > 0.1);
  options.device = DeviceChoice::kCuda;
  const DeviceBytes bytes = ModelRuntime::load(options)->placed().plan->device;
  std::set<size_t> residents;
  for (const auto& [left_out, cpu_share] :
       {std::pair(size_t{0}, true), std::pair(bytes.experts / 4, true),
        std::pair(bytes.experts * 3 / 4, true), std::pair(bytes.experts / 2, false)}) {
    options.vram_budget_bytes = bytes.total() - left_out;
    options.cpu_share = cpu_share;
    const auto on_device = ModelRuntime::load(options);
    CHECK(on_device->placed().sparsity.mode == Sparsity::kExact);
    residents.insert(n_resident(*on_device->placed().plan));
    INFO(n_resident(*on_device->placed().plan) << " resident experts");
    on_device->observation().reset_activity();
    CHECK(device_bits(logits_of_run(*on_device, 5), expected));
    const NeuronActivity found = on_device->observation().activity();
    CHECK(found.n_tokens == activity.n_tokens);
    CHECK(found.passed == Approx(activity.passed));
    CHECK(found.active == Approx(activity.active));
    CHECK(device_bits(logits_of_run(*on_device, kForwardTokens), expected));
    CHECK(device_bits(logits_of_run(*on_device, 1), expected));
  }
  CHECK((residents.size() > 1) == (name != "qwen2moe"));
}

TEST_CASE("a mixture whose layers do not all fit has the last ones on the device, with the same bits") {
  const fs::path path = data() / "arch" / "gpt-oss.gguf";
  const std::vector<float> expected =
      logits_of_run(*ModelRuntime::load(options_of(path, "dense", false)), kForwardTokens);
  LoadOptions options = options_of(path, "dense", true);
  const auto all = ModelRuntime::load(options);
  const DeviceBytes whole = all->placed().plan->device;
  // Experts leave first, and then layers.
  std::unique_ptr<ModelRuntime> model;
  const int n_layers = all->facts().spec.n_layers;
  for (size_t budget = whole.total() - whole.experts; model == nullptr; budget -= budget / 32) {
    options.vram_budget_bytes = budget;
    auto smaller = ModelRuntime::load(options);
    if (smaller->placed().plan->n_device_layers() < n_layers) model = std::move(smaller);
  }
  CHECK(model->placed().plan->n_device_layers() == n_layers - 1);
  CHECK(device_bits(logits_of_run(*model, 5), expected));
  options.vram_budget_bytes = 1000;
  CHECK_THROWS_AS(ModelRuntime::load(options), std::invalid_argument);
}

TEST_CASE("a model with states gives the CPU's bits however many of its layers are on the device") {
  const std::string name = GENERATE("qwen35", "nemotron_h", "lfm2");
  INFO(name);
  const fs::path path = data() / "arch" / (name + ".gguf");
  const auto on_cpu = ModelRuntime::load(options_of(path, "dense", false));
  const std::vector<float> expected = logits_of_run(*on_cpu, kForwardTokens);
  LoadOptions options = options_of(path, "dense", true);
  if (name != "nemotron_h") options.split = DeviceSplit::kLayers;  // nemotron_h has no choice
  const DeviceBytes whole = ModelRuntime::load(options)->placed().plan->device;
  const size_t of_layers = whole.attention + whole.kv + whole.states + whole.hot;
  std::set<int> n_layers;
  for (const size_t part : {0, 2, 4}) {
    options.vram_budget_bytes = whole.total() - of_layers * part / 8;
    const auto on_device = ModelRuntime::load(options);
    const Plan& plan = *on_device->placed().plan;
    INFO(plan.n_device_layers() << " layers");
    n_layers.insert(plan.n_device_layers());
    CHECK(plan.device.states > 0);
    CHECK(device_bits(logits_of_run(*on_device, kForwardTokens), expected));
    CHECK(device_bits(logits_of_run(*on_device, 7), expected));
  }
  CHECK(n_layers.size() > 1);
}

TEST_CASE("models with windows give the CPU's bits on the device while window blocks are reused") {
  const std::string name =
      GENERATE(from_range(some_of({"gemma3", "gemma2", "cohere2", "olmo3", "exaone4", "phi3-long", "gpt-oss",
                                   "smallthinker", "mellum", "mimo2", "step35"})));
  INFO(name);
  const WindowModel model(name);
  LoadOptions options = model.options();
  const auto on_device = ModelRuntime::load(options);
  options.device = DeviceChoice::kCpu;
  const auto on_cpu = ModelRuntime::load(options);
  REQUIRE(on_device->placed().backend.starts_with("CUDA "));
  REQUIRE(on_device->limits().window.n_blocks == 5);
  CHECK(on_device->placed().kv_bytes == on_cpu->placed().kv_bytes);
  CHECK(on_device->placed().plan->device.kv == on_device->placed().kv_bytes);
  const std::vector<int32_t> tokens = spread_tokens(101, on_cpu->facts().spec.n_vocab);
  const std::vector<float> expected = logits_of(*on_cpu, tokens, 32);
  CHECK(device_bits(logits_of(*on_device, tokens, 29), expected));
  CHECK(device_bits(logits_of(*on_device, tokens, 1), expected));  // steps are recorded and played back
}

TEST_CASE(
    "8-bit keys and values on the device have the CPU's bits, and cost a real model at most 0.001 nats") {
  LoadOptions options = options_of(data() / "relu/relu-5m-q8_0.gguf", "dense", false);
  std::vector<int32_t> tokens = read_golden(data() / "relu/relu-golden.json").front().tokens;
  options.context_tokens = 128;
  options.prefill_chunk = 64;  // more tokens than are cut by slices of keys, so that prompts' kernels run too
  tokens.resize(std::min<size_t>(tokens.size(), 72));
  const std::vector<float> halves = logits_of(*ModelRuntime::load(options), tokens, 64);
  options.kv_type = KvType::kQ8;
  const auto on_cpu = ModelRuntime::load(options);
  const std::vector<float> expected = logits_of(*on_cpu, tokens, 64);
  options.device = DeviceChoice::kCuda;
  const auto on_device = ModelRuntime::load(options);
  REQUIRE(on_device->placed().backend.starts_with("CUDA "));
  CHECK(on_device->placed().kv_bytes == on_cpu->placed().kv_bytes);
  CHECK(on_device->placed().plan->device.kv == on_device->placed().kv_bytes);
  for (const int chunk : {64, 1}) {
    const std::vector<float> logits = logits_of(*on_device, tokens, chunk);
    const double kl = mean_kl(halves, logits, on_cpu->limits().n_vocab);
    WARN("ReLU 5M, keys and values of 8 bits, on the device, steps of " << chunk << ": mean KL " << kl);
    CHECK(device_bits(logits, expected));
    CHECK(kl <= 0.001);
    CHECK(kl > 1e-9);
  }
}

TEST_CASE("a model whose layers read the keys of others is on the device as a whole, or not at all") {
  const std::string name = GENERATE("gemma4-e2b", "gemma3n");
  INFO(name);
  LoadOptions options = options_of(data() / "arch" / (name + ".gguf"), "dense", true);
  const DeviceBytes whole = ModelRuntime::load(options)->placed().plan->device;
  options.vram_budget_bytes = whole.total();
  CHECK(ModelRuntime::load(options)->placed().plan->whole());
  options.vram_budget_bytes = whole.total() - whole.hot / 2;
  CHECK_THROWS_WITH(ModelRuntime::load(options), ContainsSubstring("output, all layers and the KV cache"));
  options.device = DeviceChoice::kAuto;
  CHECK_THROWS_AS(ModelRuntime::load(options), std::invalid_argument);
}

TEST_CASE("an encoder stays on the CPU, and says so") {
  LoadOptions options = options_of(data() / "arch/bert.gguf", "dense", true);
  CHECK_THROWS_WITH(ModelRuntime::load(options), ContainsSubstring("An encoder runs on the CPU only"));
  options.device = DeviceChoice::kAuto;
  const auto model = ModelRuntime::load(options);
  CHECK(model->placed().plan == nullptr);
  REQUIRE(model->placed().notes.size() == 1);
  CHECK_THAT(model->placed().notes.front(), ContainsSubstring("An encoder runs on the CPU only"));
}

TEST_CASE("contexts from which indexers choose stay on the CPU, and shorter ones do not") {
  LoadOptions options = options_of(data() / "arch/glm-dsa-chooses.gguf", "dense", true);
  options.context_tokens = 0;
  const auto brief = ModelRuntime::load(options);
  CHECK(brief->placed().plan != nullptr);
  CHECK(brief->facts().context_tokens == 16);
  options.context_tokens = 48;
  constexpr const char* kWhy =
      "A context of more than 16 tokens, from which the model's indexers choose, runs on "
      "the CPU only";
  CHECK_THROWS_WITH(ModelRuntime::load(options), ContainsSubstring(kWhy));
  options.device = DeviceChoice::kAuto;
  const auto model = ModelRuntime::load(options);
  CHECK(model->placed().plan == nullptr);
  REQUIRE(model->placed().notes.size() == 1);
  CHECK_THAT(model->placed().notes.front(), ContainsSubstring(kWhy));
}

TEST_CASE("sparse models give the CPU's logits on the device, and the same bits however a prompt is cut") {
  const std::string name =
      GENERATE(from_range(some_of({"relu-llama", "relu-llama.powerinfer", "bamboo.powerinfer",
                                   "falcon-7b.powerinfer", "opt.powerinfer"})));
  const std::string mode = GENERATE("dense", "exact", "predicted");
  if (mode == "predicted" && name == "relu-llama") return;
  const fs::path path = data() / "arch" / (name + ".gguf");
  INFO(name << " " << mode);
  const auto on_cpu = ModelRuntime::load(options_of(path, mode, false));
  const auto on_device = ModelRuntime::load(options_of(path, mode, true));
  CHECK(sparsity_name(on_device->placed().sparsity.mode) == mode);
  const std::vector<float> whole = logits_of_run(*on_device, kForwardTokens);
  CHECK(worst_difference(whole, logits_of_run(*on_cpu, kForwardTokens)) < kTolerance);
  CHECK(device_bits(logits_of_run(*on_device, 7), whole));
  CHECK(device_bits(logits_of_run(*on_device, 1), whole));
}

/// Runs a model with its neurons shared in several ways; all must give the same bits.
void check_shares(const std::string& name, const std::string& mode) {
  const fs::path path = data() / "arch" / (name + ".gguf");
  LoadOptions options = options_of(path, mode, true);
  std::vector<float> expected;
  for (const auto& [share, all_gates] : {std::pair{Share::kAll, false}, std::pair{Share::kNone, false},
                                         std::pair{Share::kThird, true}, std::pair{Share::kRandom, false}}) {
    INFO(name << " " << mode << " share " << static_cast<int>(share) << " all gates " << all_gates);
    options.choose_placement = placed(share, all_gates);
    const auto model = ModelRuntime::load(options);
    const std::vector<float> logits = logits_of_run(*model, 20);  // many neurons at once, then few
    if (share == Share::kAll && mode == "dense") {  // the file's own down projection: sums of floats
      CHECK(worst_difference(logits, logits_of_run(*ModelRuntime::load(options_of(path, mode, false)),
                                                   kForwardTokens)) < kTolerance);
      continue;
    }
    if (expected.empty()) expected = logits;
    REQUIRE(device_bits(logits, expected));
    if (share == Share::kThird) REQUIRE(device_bits(logits_of_run(*model, 3), expected));
  }
  const auto on_cpu = ModelRuntime::load(options_of(path, mode, false));
  CHECK(worst_difference(expected, logits_of_run(*on_cpu, kForwardTokens)) < kTolerance);
}

TEST_CASE("dense: neurons may be shared between the device and the CPU in any way with the same bits") {
  check_shares(GENERATE(from_range(some_of({"relu-llama", "llama", "falcon-7b.powerinfer", "apertus"}))),
               "dense");
}

TEST_CASE("exact: neurons may be shared between the device and the CPU in any way with the same bits") {
  check_shares(GENERATE(from_range(
                   some_of({"relu-llama", "relu-llama.powerinfer", "bamboo.powerinfer", "opt.powerinfer"}))),
               "exact");
}

TEST_CASE("predicted: neurons may be shared between the device and the CPU in any way with the same bits") {
  check_shares(GENERATE(from_range(some_of({"relu-llama.powerinfer", "bamboo.powerinfer",
                                            "falcon-7b.powerinfer", "opt.powerinfer"}))),
               "predicted");
}

TEST_CASE("a model placed again has the bits and the memory use of one loaded that way") {
  const std::string name = GENERATE("relu-llama.powerinfer", "opt.powerinfer");
  INFO(name);
  LoadOptions options = options_of(data() / "arch" / (name + ".gguf"), "exact", true);
  options.vram_budget_bytes = 64 << 20;  // otherwise two at once would not find as much free memory as one
  const auto place = [&](Share share) {
    options.choose_placement = placed(share, share == Share::kThird, share == Share::kAll ? 0 : 8);
  };
  place(Share::kNone);
  const auto model = ModelRuntime::load(options);
  const std::vector<float> expected = logits_of_run(*model, 5);
  for (const Share share : {Share::kThird, Share::kRandom, Share::kNone}) {
    place(share);
    model->place_again(options);
    CHECK(model->placed().prefetcher != nullptr);
    CHECK(device_bits(logits_of_run(*model, 5), expected));
    const auto fresh = ModelRuntime::load(options);
    CHECK(model->placed().plan->json(model->facts().spec) == fresh->placed().plan->json(fresh->facts().spec));
  }
  // An impossible placement is reported, and another one can follow.
  LoadOptions impossible = options;
  impossible.choose_placement = nullptr;
  impossible.vram_budget_bytes = 1000;
  CHECK_THROWS_AS(model->place_again(impossible), std::invalid_argument);
  model->place_again(options);
  CHECK(device_bits(logits_of_run(*model, 5), expected));
}

TEST_CASE("a model placed again in less memory keeps its contexts, and every KV block is usable") {
  LoadOptions options = options_of(data() / "arch/relu-llama.powerinfer.gguf", "exact", true);
  options.n_slots = 3;
  options.n_kv_contexts = kKvContextsDecided;
  options.vram_budget_bytes = 64 << 20;
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->placed().plan->whole());
  const StepLimits limits = model->limits();
  REQUIRE(limits.n_blocks == 3 * options.context_tokens / limits.block_tokens);
  // The last block holds the third slot's last positions.
  const FixedBlocks blocks(limits, 3);
  const auto last_block = [&] {
    std::vector<float> rows;
    Batch batch;
    blocks.set_tables(batch);
    for (int position = 0; position < blocks.max_positions(); ++position) {
      batch.clear();
      batch.tokens = {(7 + position) % limits.n_vocab};
      batch.positions = {position};
      batch.slots = {2};
      batch.logit_rows = {0};
      const std::span<const float> logits = model->forward(batch).logits;
      rows.assign(logits.begin(), logits.end());
    }
    return rows;
  };
  const std::vector<float> expected = last_block();
  LoadOptions less = options;
  less.vram_budget_bytes = model->placed().plan->device.total() - 1000;
  model->place_again(less);
  CHECK_FALSE(model->placed().plan->whole());
  CHECK(model->placed().plan->device.total() <= *less.vram_budget_bytes);
  CHECK(model->limits().n_blocks == limits.n_blocks);
  CHECK(device_bits(last_block(), expected));
  // This also holds if the first placement had room for only one context and now has more memory.
  const auto small = ModelRuntime::load(less);
  const int n_blocks = small->limits().n_blocks;
  CHECK(n_blocks < limits.n_blocks);
  small->place_again(options);
  CHECK(small->placed().plan->whole());
  CHECK(small->limits().n_blocks == n_blocks);
}

/// Runs a model whose cold neurons are streamed to the device, in long steps or in all: the bits equal those
/// that the CPU's share gives. A layer has 96 neurons of at most 500 bytes: 64 of them fit the smaller
/// buffers.
void check_streaming(const std::string& name, const std::string& mode) {
  const fs::path path = data() / "arch" / (name + ".gguf");
  LoadOptions options = options_of(path, mode, true);
  for (const auto& [share, all_gates] :
       {std::pair{Share::kNone, false}, std::pair{Share::kThird, true}, std::pair{Share::kRandom, false}}) {
    options.choose_placement = placed(share, all_gates);
    options.cpu_share = true;
    const auto with_cpu = ModelRuntime::load(options);
    with_cpu->observation().reset_activity();
    const std::vector<float> expected = logits_of_run(*with_cpu, 20);
    if (mode != "dense") CHECK(with_cpu->observation().activity().cold > 0);
    for (const size_t stream_bytes : {size_t{1} << 20, size_t{32} << 10}) {
      INFO(name << " " << mode << " share " << static_cast<int>(share) << " all gates " << all_gates
                << ", buffers of " << stream_bytes);
      options.choose_placement = placed(share, all_gates, 0, stream_bytes);
      options.cpu_share = false;
      const auto streaming = ModelRuntime::load(options);
      streaming->observation().reset_activity();
      REQUIRE(device_bits(logits_of_run(*streaming, 3), expected));
      if (mode != "dense") CHECK(streaming->observation().activity().cold == 0);
    }
    options.cpu_share = true;
    REQUIRE(device_bits(logits_of_run(*ModelRuntime::load(options), 20),
                        expected));  // a long step, then a short one
  }
}

TEST_CASE("long steps give the same bits with neurons brought to the device: dense") {
  check_streaming(GENERATE(from_range(some_of({"relu-llama", "llama", "falcon-7b.powerinfer", "apertus"}))),
                  "dense");
}

TEST_CASE("long steps give the same bits with neurons brought to the device: exact") {
  check_streaming(GENERATE(from_range(some_of(
                      {"relu-llama", "relu-llama.powerinfer", "bamboo.powerinfer", "opt.powerinfer"}))),
                  "exact");
}

TEST_CASE("long steps give the same bits with neurons brought to the device: predicted") {
  check_streaming(
      GENERATE(from_range(some_of({"relu-llama.powerinfer", "bamboo.powerinfer", "opt.powerinfer"}))),
      "predicted");
}

TEST_CASE("the device counts skipped neurons as the CPU does") {
  const std::string mode = GENERATE("exact", "predicted");
  const fs::path path = data() / "relu" / "relu-5m-q4_0.powerinfer.gguf";
  NeuronActivity found[2];
  for (const bool on_device : {false, true}) {
    const auto model = ModelRuntime::load(options_of(path, mode, on_device));
    model->observation().reset_activity();
    logits_of_run(*model, 9);
    found[on_device ? 1 : 0] = model->observation().activity();
  }
  INFO(mode);
  CHECK(found[1].n_tokens == found[0].n_tokens);
  CHECK(found[1].proposed == Approx(found[0].proposed).epsilon(1e-3));
  CHECK(found[1].passed == Approx(found[0].passed).epsilon(1e-3));
  CHECK(found[1].active == Approx(found[0].active).epsilon(1e-3));
  CHECK(found[1].active > 0.01);
}

}  // namespace
}  // namespace hearth::testing
