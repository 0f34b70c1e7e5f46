// Modes in which a device sees only its share of a layer: each device drops small contributions itself, all
// gates verify predictors, values are observed, and a mode is chosen by measuring.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"

namespace hearth::testing {
namespace {

constexpr int kTokens = 24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A distribution of a layer's neurons.
struct Way {
  const char* what;
  Share share;
  bool all_gates = false;
  size_t stream_bytes = 0;  // if not 0, cold neurons are streamed to the device in all steps
};

const std::vector<Way> kWays = {
    {"all by the CPU", Share::kNone},
    {"every third on the device", Share::kThird},
    {"every third and all gates on the device", Share::kThird, true},
    {"three quarters on the device", Share::kRandom},
    {"all on the device", Share::kAll},
    {"three quarters on the device, others streamed", Share::kRandom, false, size_t{32} << 10},
    {"all streamed", Share::kNone, false, size_t{1} << 20},
};

/// Returns whether a model is tried in this way. The first model is tried in every way (not in CI), other
/// models only in the ways whose steps differ the most.
bool is_tried(const Way& way, bool first_model) {
  return (first_model && device_stride() == 1) || way.share == Share::kNone ||
         (way.share == Share::kThird && !way.all_gates);
}

LoadOptions options_of(const std::string& name, const std::string& mode, const Way& way) {
  LoadOptions options = device_options("arch/" + name + ".gguf", mode);
  options.sparsity.calibrating = mode == "calibrated";
  options.cpu_share = way.stream_bytes == 0;
  options.choose_placement = placed(way.share, way.all_gates, 0, way.stream_bytes);
  return options;
}

std::unique_ptr<ModelRuntime> alone(const std::string& name, const std::string& mode) {
  LoadOptions options = options_of(name, mode, kWays.front());
  options.device = DeviceChoice::kCpu;
  options.choose_placement = nullptr;
  return ModelRuntime::load(options);
}

std::vector<float> run(ModelRuntime& model, int chunk) {
  return logits_of(model, spread_tokens(kTokens, model.facts().spec.n_vocab), chunk);
}

/// Scalar code has no fused multiply-adds, so its bits are not the device's.
bool cpu_has_device_bits() { return supported_isas().front() != Isa::kScalar; }

/// The values of a run by layer, [n_tokens, d_ff], and their norms.
struct Values {
  std::vector<std::vector<float>> values, sizes;
};

Values observed(ModelRuntime& model, int chunk) {
  const ModelSpec& spec = model.facts().spec;
  const auto d_ff = static_cast<size_t>(spec.d_ff);
  Values found{.values = std::vector<std::vector<float>>(static_cast<size_t>(spec.n_layers)), .sizes = {}};
  found.sizes = found.values;
  model.observation().observe_values(
      [&](int layer, const float* values, const float* down_sizes, int n_tokens) {
        std::vector<float>& of_layer = found.values[static_cast<size_t>(layer)];
        of_layer.insert(of_layer.end(), values, values + static_cast<size_t>(n_tokens) * d_ff);
        found.sizes[static_cast<size_t>(layer)].assign(down_sizes, down_sizes + d_ff);
      });
  run(model, chunk);
  model.observation().observe_values({});
  return found;
}

/// For each layer, the `share` quantile of the neurons' contributions.
std::vector<float> thresholds_of(const Values& seen, double share) {
  std::vector<float> thresholds;
  for (size_t layer = 0; layer < seen.values.size(); ++layer) {
    const std::vector<float>& sizes = seen.sizes[layer];
    std::vector<float> scores;
    for (size_t i = 0; i < seen.values[layer].size(); ++i) {
      scores.push_back(std::fabs(seen.values[layer][i]) * sizes[i % sizes.size()]);
    }
    const auto at = scores.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(scores.size()));
    std::ranges::nth_element(scores, at);
    thresholds.push_back(*at);
  }
  return thresholds;
}

struct Counted {
  std::vector<float> logits;
  ActivityCounts neurons;
  NeuronActivity shares;
};

Counted counted(ModelRuntime& model, const std::vector<float>& thresholds, int chunk) {
  model.observation().set_thresholds(thresholds);
  model.observation().count_activity();
  model.observation().reset_activity();
  Counted found;
  found.logits = run(model, chunk);
  found.shares = model.observation().activity();
  found.neurons = model.observation().take_activity();
  return found;
}

std::string calibrated_model() {
  return GENERATE(from_range(some_of({"llama", "falcon-7b", "gemma2", "phi2", "apertus"})));
}

double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::fabs(static_cast<double>(a[i]) - b[i]);
    size += std::fabs(static_cast<double>(b[i]));
  }
  return difference / size;
}

}  // namespace

TEST_CASE("small contributions are dropped the same way wherever neurons are computed") {
  const std::string name = calibrated_model();
  const std::vector<float> half = thresholds_of(observed(*alone(name, "calibrated"), kTokens), 0.5);
  for (const std::vector<float>& thresholds :
       {half, std::vector<float>(half.size(), 0.0f), std::vector<float>(half.size(), kInfinity)}) {
    const bool extreme = thresholds != half;  // all or nothing: a prompt only
    Counted expected;
    for (const Way& way : kWays) {
      if (!is_tried(way, name == "llama" && !extreme)) continue;
      INFO(name << ", thresholds from " << thresholds.front() << ", " << way.what);
      const auto model = ModelRuntime::load(options_of(name, "calibrated", way));
      REQUIRE(model->placed().plan != nullptr);
      CHECK(model->placed().plan->shares == (way.share != Share::kAll));
      const Counted found = counted(*model, thresholds, 20);
      if (expected.logits.empty()) expected = found;
      REQUIRE(same_bits(found.logits, expected.logits));
      CHECK(found.neurons == expected.neurons);
      CHECK(found.shares.n_tokens == kTokens);
      CHECK(found.shares.proposed == expected.shares.proposed);
      CHECK(found.shares.active == expected.shares.active);
      CHECK(found.shares.passed == 0);
      // One token per step, recorded and played back.
      for (int i = 0; i < 2 && !extreme; ++i) {
        const Counted single = counted(*model, thresholds, 1);
        REQUIRE(same_bits(single.logits, expected.logits));
        CHECK(single.neurons == expected.neurons);
      }
    }
    if (thresholds.front() == kInfinity) CHECK(expected.shares.active == 0);
    if (thresholds == half) CHECK(expected.shares.active == Approx(0.5).margin(0.05));
    // The CPU alone sums floats, so a contribution close to a threshold may fall on its other side.
    const Counted by_cpu = counted(*alone(name, "calibrated"), thresholds, kTokens);
    CHECK(expected.shares.active == Approx(by_cpu.shares.active).epsilon(0.01));
    CHECK(mean_difference(expected.logits, by_cpu.logits) < 0.01);
  }
}

TEST_CASE("observing reports the values of all neurons and leaves no trace") {
  const std::string name = GENERATE("llama", "falcon-7b");  // with a gate and without
  const auto by_cpu = alone(name, "calibrated");
  const Values expected = observed(*by_cpu, 20);
  for (const Way& way : kWays) {
    if (!is_tried(way, name == "llama")) continue;
    INFO(name << ", " << way.what);
    const auto model = ModelRuntime::load(options_of(name, "calibrated", way));
    const std::vector<float> before = run(*model, 1);
    run(*model, 1);  // played back
    const Values found = observed(*model, 20);
    REQUIRE(found.sizes == expected.sizes);
    if (cpu_has_device_bits()) CHECK(same_bits(found.values[0], expected.values[0]));
    for (size_t layer = 0; layer < expected.values.size(); ++layer) {
      CHECK(mean_difference(found.values[layer], expected.values[layer]) < 1e-3);
    }
    // Single tokens too, whose steps were recorded without an observer.
    CHECK(same_bits(observed(*model, 1).values[1], found.values[1]));
    REQUIRE(same_bits(run(*model, 1), before));
    REQUIRE(same_bits(run(*model, 1), before));
  }
}

TEST_CASE("calibrated models that do not fit the device have their last layers on it, with the same bits") {
  const std::string name = "llama";
  LoadOptions options = options_of(name, "calibrated", kWays.front());
  options.choose_placement = nullptr;
  options.split = DeviceSplit::kAuto;
  const auto whole = ModelRuntime::load(options);
  CHECK(whole->placed().plan->whole());
  const std::vector<float> half = thresholds_of(observed(*whole, kTokens), 0.5);
  const Counted expected = counted(*whole, half, 20);
  options.vram_budget_bytes = whole->placed().plan->device.total() - 1;
  const auto part = ModelRuntime::load(options);
  CHECK(part->placed().plan->n_device_layers() == part->facts().spec.n_layers - 1);
  CHECK(!part->placed().plan->shares);
  const Counted found = counted(*part, half, 20);
  CHECK(same_bits(found.logits, expected.logits));
  CHECK(found.neurons == expected.neurons);
  // On request, neurons are shared.
  options.split = DeviceSplit::kNeurons;
  const auto shared = ModelRuntime::load(options);
  CHECK(shared->placed().plan->shares);
  CHECK(shared->placed().prefetcher == nullptr);
  CHECK(same_bits(counted(*shared, half, 20).logits, expected.logits));
}

TEST_CASE("verifying predictors with a device gives results within 1 % of the CPU's alone") {
  const std::string name = GENERATE(from_range(
      some_of({"relu-llama.powerinfer", "bamboo.powerinfer", "falcon-7b.powerinfer", "opt.powerinfer"})));
  LoadOptions on_cpu = options_of(name, "predicted", kWays.front());
  on_cpu.sparsity.verify_predictor = true;
  on_cpu.device = DeviceChoice::kCpu;
  on_cpu.choose_placement = nullptr;
  const auto by_cpu = ModelRuntime::load(on_cpu);
  by_cpu->observation().reset_activity();
  run(*by_cpu, 20);
  const NeuronActivity expected = by_cpu->observation().activity();
  REQUIRE(expected.recall > 0);
  for (const Way& way : kWays) {
    if (!is_tried(way, name.starts_with("relu-llama"))) continue;
    for (const int chunk : {20, 1}) {
      // Decoding token by token takes longest, so it runs only where the device has a share and where it
      // streams neurons.
      if (chunk == 1 && way.share != Share::kThird && way.stream_bytes == 0) continue;
      INFO(name << ", " << way.what << ", chunk " << chunk);
      LoadOptions options = options_of(name, "predicted", way);
      const std::vector<float> unverified = run(*ModelRuntime::load(options), chunk);
      options.sparsity.verify_predictor = true;
      const auto model = ModelRuntime::load(options);
      REQUIRE(model->placed().plan != nullptr);
      for (int i = 0; i < 2; ++i) {  // the second time, steps are played back
        model->observation().reset_activity();
        REQUIRE(same_bits(run(*model, chunk), unverified));
        const NeuronActivity found = model->observation().activity();
        CHECK(found.n_tokens == expected.n_tokens);
        CHECK(found.recall == Approx(expected.recall).epsilon(0.01));
        CHECK(found.true_active == Approx(expected.true_active).epsilon(0.01));
        CHECK(found.false_positives == Approx(expected.false_positives).epsilon(0.01));
      }
    }
  }
}

TEST_CASE("auto chooses by what it measures, with a device and without one") {
  for (const double threshold : {-1000.0, 1000.0}) {
    LoadOptions options = device_options("arch/bamboo.powerinfer.gguf", "auto");
    options.sparsity.predictor_threshold = threshold;
    const auto on_device = ModelRuntime::load(options);
    options.device = DeviceChoice::kCpu;
    const auto by_cpu = ModelRuntime::load(options);
    const SparsityReport& found = on_device->placed().sparsity;
    CHECK(on_device->placed().plan != nullptr);
    CHECK(found.mode == (threshold < 0 ? Sparsity::kExact : Sparsity::kPredicted));
    CHECK(found.mode == by_cpu->placed().sparsity.mode);
    CHECK(found.reason == by_cpu->placed().sparsity.reason);
    CHECK_THAT(found.reason, ContainsSubstring("a token reads"));
  }
}

namespace {

/// A CPU that counts the calls of expect_work(). If `watches` is set, it also counts the calls of experts()
/// (n_mixtures), and those before which the device ran other work after its hand-over (n_beside).
class WatchingCpu final : public CpuBackend {
 public:
  WatchingCpu() : CpuBackend(1, supported_isas().front()) {}
  void expect_work() override { ++n_told; }
  void experts(std::span<const Expert> experts, FfnActivation activation, const float* x,
               const ExpertChoice& choice, float* out, ExpertCounts& counts) override {
    if (watches) {
      cudaDeviceSynchronize();  // work that was not launched before this does not run
      const std::vector<cudaemu::Interval> ran = cudaemu::intervals();
      REQUIRE(!ran.empty());
      ++n_mixtures;
      n_beside += ran.back().name.find("hand_over") == std::string::npos ? 1 : 0;
    }
    CpuBackend::experts(experts, activation, x, choice, out, counts);
  }
  int n_told = 0, n_mixtures = 0, n_beside = 0;
  bool watches = false;
};

/// Runs three steps of a mixture; with a device, the second is recorded and the third played back.
void run_three_steps(WatchingCpu& cpu, const std::string& name, bool with_device) {
  const ModelFile file =
      ModelFile::open(std::filesystem::path(source_dir()) / "tests/data/arch" / (name + ".gguf"));
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  const std::unique_ptr<ComputeDevice> device = cuda::make_device(cpu, {.budget_bytes = size_t{64} << 20});
  const Devices devices =
      with_device ? Devices(cpu, *device, std::vector<bool>(static_cast<size_t>(spec.n_layers), true))
                  : Devices(cpu);
  const Weights placed = weights.placed(devices, spec, false);
  const KvMemory kv(spec, {.n_blocks = 2}, devices);
  ForwardPass pass(devices, spec, placed, kv, {.max_tokens = 4, .max_logit_rows = 1, .max_context = 16});
  const NeuronLayout in_file = NeuronLayout::in_file(spec, weights);
  NeuronLayout layout;
  for (int i = 0; i < spec.n_layers; ++i) {
    with_device ? layout.add_whole(in_file.layer(i), device->backend()) : layout.add(in_file.layer(i));
  }
  pass.ffn().use({}, layout);
  const std::vector<int32_t> table = {0};
  Batch batch;
  batch.block_tables = table;
  batch.max_blocks = 1;
  for (int32_t position = 0; position < 3; ++position) {
    batch.clear();
    batch.tokens.push_back(3);
    batch.positions.push_back(position);
    batch.slots.push_back(0);
    batch.logit_rows.push_back(0);
    pass.run(batch);
  }
}

}  // namespace

TEST_CASE("a mixture on a device announces the CPU threads' work before it waits for it") {
  WatchingCpu beside, alone;
  run_three_steps(beside, "mixtral", true);
  run_three_steps(alone, "mixtral", false);
  CHECK(beside.n_told == 3 * 2);  // steps, layers
  CHECK(alone.n_told == 0);
}

TEST_CASE("the device has a mixture's shared expert before the CPU begins with the chosen ones [emulated]",
          "[emulated]") {
  const auto [name, shares] =
      GENERATE(table<std::string, bool>({{"glm4moe", true}, {"deepseek2-v3", true}, {"mixtral", false}}));
  INFO(name);
  WatchingCpu cpu;
  cpu.watches = true;
  cudaemu::record_intervals(true);
  run_three_steps(cpu, name, true);
  cudaemu::record_intervals(false);
  CHECK(cpu.n_mixtures >= 3);
  CHECK(cpu.n_beside == (shares ? cpu.n_mixtures : 0));
}

}  // namespace hearth::testing
