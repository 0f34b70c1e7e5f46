// Tests MixturePass by itself against a double-precision reference, with the layer on the CPU and with the
// layer on a second backend.
#include "engine/forward/mixture_pass.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/forward/backend_device.h"
#include "tests/support/catch.h"
#include "tests/support/reference_experts.h"
#include "tests/support/same_bits.h"
#include "tests/support/source_dir.h"

namespace hearth::test {
namespace {

constexpr int kMixedTokens = 5;

/// A file of tests/data/arch, whose layers on_device are computed by a second backend.
struct Mixture {
  explicit Mixture(const std::string& name, bool on_device = false)
      : file(ModelFile::open(std::filesystem::path(testing::source_dir()) / "tests/data/arch" /
                             (name + ".gguf"))),
        spec(read_model_spec(file)),
        weights(bind_weights(file, spec)),
        layout(NeuronLayout::in_file(spec, weights)),
        devices(on_device ? Devices(cpu, device, std::vector<bool>(static_cast<size_t>(spec.n_layers), true))
                          : Devices(cpu)),
        pass(reserved(), spec, weights, kMixedTokens),
        backend(on_device ? other : cpu),
        work(backend, spec, weights, kMixedTokens) {
    work.make_sets(backend);
    while (!spec.layer(layer).experts) ++layer;
    std::mt19937 rng(5);
    std::normal_distribution<float> normal;
    for (std::vector<float>* rows : {&input, &before, &start}) {
      rows->resize(static_cast<size_t>(kMixedTokens) * static_cast<size_t>(spec.d_model));
      std::ranges::generate(*rows, [&] { return normal(rng); });
    }
  }

  /// start + FFN(input).
  std::vector<float> run(FfnObservers& observers, ExpertCounts& counts) {
    std::vector<float> out = start;
    const LayerCall call{.backend = backend,
                         .work = work,
                         .layer = layer,
                         .neurons = layout.layer(layer),
                         .normed = input.data(),
                         .x = start.data(),
                         .n_tokens = kMixedTokens,
                         .out = out.data()};
    pass.before_attention(call, before.data());
    pass.run(call, observers, counts);
    return out;
  }
  std::vector<float> run() {
    FfnObservers nobody(spec);
    ExpertCounts counts;
    return run(nobody, counts);
  }

  ModelFile file;
  ModelSpec spec;
  Weights weights;
  NeuronLayout layout;
  CpuBackend cpu{2, supported_isas().front()}, other{1, supported_isas().front()};
  BackendDevice device{other};
  Devices devices;
  MixturePass pass;
  Backend& backend;
  FfnWorkspace work;
  int layer = 0;
  std::vector<float> input, before, start;

 private:
  const Devices& reserved() {
    const StepBounds bounds = step_bounds(spec, {.max_tokens = kMixedTokens});
    cpu.reserve(bounds);
    other.reserve(bounds);
    return devices;
  }
};

/// The shared expert's weight for this token.
double gate_of(const MixtureWeights& mixture, const std::vector<double>& x) {
  const double logit = testing::reference_product(mixture.shared_gate.weight, mixture.shared_gate.bias, x)[0];
  return 1.0 / (1.0 + std::exp(-logit));
}

/// Returns start + FFN(input) in doubles. Uses the router of the backends' reference, and otherwise its own
/// code.
std::vector<double> reference(const Mixture& model, Router router, int n_shared) {
  const ModelSpec& spec = model.spec;
  const LayerWeights& layer = model.weights.layers[static_cast<size_t>(model.layer)];
  const auto d_model = static_cast<size_t>(spec.d_model);
  std::vector<double> out(model.start.begin(), model.start.end());
  int n_found = 0;
  for (size_t t = 0; t < kMixedTokens; ++t) {
    const auto row = [&](const std::vector<float>& rows) {
      const auto first = rows.begin() + static_cast<int64_t>(t * d_model);
      return std::vector<double>(first, first + static_cast<int64_t>(d_model));
    };
    const auto add = [&](const Expert& expert, double weight) {
      const std::vector<double> sum =
          testing::reference_expert(expert, spec.activation, model.input.data() + t * d_model);
      for (size_t c = 0; c < d_model; ++c) out[t * d_model + c] += weight * sum[c];
    };
    const std::vector<double> logits =
        testing::reference_product(layer.mixture.router.weight, layer.mixture.router.bias,
                                   row(spec.arch.mixture.reads_layer_input ? model.before : model.input));
    const std::vector<float> rounded(logits.begin(), logits.end());
    const testing::ReferenceChoice choice = testing::reference_route(rounded.data(), router);
    for (size_t i = 0; i < choice.experts.size(); ++i)
      add(layer.mixture.experts[static_cast<size_t>(choice.experts[i])], choice.weights[i]);
    n_found = 0;
    if (!layer.mixture.shared.empty()) {
      add(layer.mixture.shared[0], gate_of(layer.mixture, row(model.input)));
      ++n_found;
    } else if (layer.down.weight) {
      add({.gate = layer.gate.weight, .up = layer.up.weight, .down = layer.down.weight}, 1.0);
      ++n_found;
    }
  }
  CHECK(n_found == n_shared);
  return out;
}

TEST_CASE("a mixture's pass adds the chosen experts and the shared one") {
  struct Case {
    std::string name;
    int n_shared;  // with a gate or without one
  };
  // Routers of each kind of score, one that reads the layer's input, groups, and both kinds of shared expert.
  const Case tested = GENERATE(Case{"mixtral", 0}, Case{"smallthinker", 0}, Case{"qwen2moe", 1},
                               Case{"granitemoe-shared", 1}, Case{"deepseek", 1});
  INFO(tested.name);
  Mixture model(tested.name);
  const MixtureSpec& mixture = model.spec.mixture;
  const Router router{
      .n_experts = mixture.n_experts,
      .n_used = mixture.n_used,
      .score = mixture.score,
      .choice_bias = model.weights.layers[static_cast<size_t>(model.layer)].mixture.choice_bias,
      .renormalize = mixture.renormalize,
      .scale = mixture.scale};
  REQUIRE(mixture.n_groups == 1);
  const std::vector<double> expected = reference(model, router, tested.n_shared);
  const std::vector<float> found = model.run();
  double worst = 0, squares = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
    squares += expected[i] * expected[i];
  }
  CHECK(worst / std::sqrt(squares / static_cast<double>(found.size())) < 1e-3);
}

TEST_CASE("a mixture's pass gives the same bits for a device's layer, and counts and reports the same") {
  const std::string name = GENERATE("smallthinker", "qwen2moe", "deepseek");
  INFO(name);
  std::vector<std::vector<float>> outs;
  std::vector<ActivityCounts> activities;
  for (const bool on_device : {false, true}) {
    Mixture model(name, on_device);
    const MixtureSpec& mixture = model.spec.mixture;
    FfnObservers observers(model.spec);
    ActivityCounter counter({.n_layers = model.spec.n_layers,
                             .d_ff = mixture.n_experts,
                             .experts = true,
                             .max_tokens = kMixedTokens},
                            {});
    observers.count_activity(&counter);
    Batch batch;
    for (int t = 0; t < kMixedTokens; ++t) {
      batch.tokens.push_back(0);
      batch.slots.push_back(0);
      batch.positions.push_back(t);
      batch.logit_rows.push_back(t);
    }
    ExpertCounts counts;
    {
      const ActivityCounter::StepScope step(&counter, batch);
      outs.push_back(model.run(observers, counts));
    }
    activities.push_back(counter.take());
    const bool gated_shared = name == "qwen2moe";
    CHECK(counts.chosen == kMixedTokens * (mixture.n_used + (gated_shared ? 1 : 0)));
    const std::vector<uint32_t>& active = activities.back().active;
    CHECK(std::accumulate(active.begin(), active.end(), uint32_t{0}) ==
          static_cast<uint32_t>(kMixedTokens * mixture.n_used));
  }
  CHECK(same_bits(outs[0], outs[1]));
  CHECK(activities[0].active == activities[1].active);
}

TEST_CASE("a mixture that skips zeros gives the sums of one that computes them") {
  Mixture model("smallthinker");
  REQUIRE(model.spec.activation.has_zeros());
  const std::vector<float> whole = model.run();
  ExpertLayout layout(model.weights, model.cpu);
  layout.fill(1, {});
  model.pass.use(&layout);
  FfnObservers nobody(model.spec);
  ExpertCounts counts;
  const std::vector<float> skipping = model.run(nobody, counts);
  CHECK(counts.down_rows > 0);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(skipping[i] == Approx(whole[i]).margin(1e-3));
  const ExpertLayout none;
  model.pass.use(&none);
  CHECK(same_bits(model.run(), whole));
}

}  // namespace
}  // namespace hearth::test
