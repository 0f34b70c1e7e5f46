// Tests predictors by themselves: compares the neurons that they propose with logits in double precision, and
// checks for which layers proposals are made ahead.
#include "engine/forward/neuron_predictor.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/reference_experts.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

constexpr int kPredictedTokens = 3, kHotNeurons = 16;

/// Layers of a model with predictors, each shared between the CPU and a device that is the CPU too. The
/// layers that `cached` names have a neuron cache.
struct Predicted {
  explicit Predicted(const std::vector<bool>& cached) {
    TinyModel("llama", {.n_layers = static_cast<int>(cached.size())})
        .powerinfer()
        .write(folder / "model.gguf");
    file.emplace(ModelFile::open(folder / "model.gguf"));
    spec = read_model_spec(*file);
    weights = bind_weights(*file, spec);
    cpu.reserve(step_bounds(spec, {.max_tokens = kPredictedTokens}));
    in_file = NeuronLayout::in_file(spec, weights);
    LayerPlacement placement;
    for (int j = 0; j < kHotNeurons; ++j) placement.hot.push_back(j);
    for (size_t i = 0; i < cached.size(); ++i) {
      placement.n_cache = cached[i] ? 8 : 0;
      layout.add_shared(in_file.layer(static_cast<int>(i)), placement, cpu);
    }
    work = FfnWorkspace(cpu, spec, weights, kPredictedTokens);
    work.make_sets(cpu);
    std::mt19937 rng(3);
    std::normal_distribution<float> normal;
    x.resize(static_cast<size_t>(kPredictedTokens * spec.d_model));
    std::ranges::generate(x, [&] { return normal(rng); });
  }

  LayerCall call(int layer) {
    return {.backend = cpu,
            .work = work,
            .layer = layer,
            .neurons = layout.layer(layer),
            .normed = nullptr,
            .x = x.data(),
            .n_tokens = kPredictedTokens,
            .out = nullptr};
  }

  /// Checks that the set has the neurons whose logits for x reach the threshold.
  void check_proposed(int layer, float threshold, const NeuronSet& set) const {
    const LayerWeights& of_layer = weights.layers[static_cast<size_t>(layer)];
    int n_proposed = 0;
    for (int t = 0; t < kPredictedTokens; ++t) {
      const auto row = x.begin() + t * spec.d_model;
      std::vector<double> hidden = testing::reference_product(of_layer.predictor_in, nullptr,
                                                              std::vector<double>(row, row + spec.d_model));
      for (double& value : hidden) value = std::max(value, 0.0);
      const std::vector<double> logits = testing::reference_product(of_layer.predictor_out, nullptr, hidden);
      for (int j = 0; j < spec.d_ff; ++j) {
        const double above = logits[static_cast<size_t>(j)] - double{threshold};
        if (std::abs(above) > 1e-3) CHECK(set.wants(t, j) == (above > 0));
        n_proposed += above > 0 ? 1 : 0;
      }
    }
    CHECK(n_proposed > 0);
    CHECK(n_proposed < kPredictedTokens * spec.d_ff);
  }

  TempFolder folder;
  std::optional<ModelFile> file;
  ModelSpec spec;
  Weights weights;
  CpuBackend cpu{1, supported_isas().front()};
  NeuronLayout in_file, layout;
  FfnWorkspace work;
  std::vector<float> x;
};

TEST_CASE("a predictor proposes the neurons whose logits reach the threshold") {
  Predicted model({true, true});
  const float threshold = GENERATE(0.0f, 0.1f);
  NeuronPredictor predictor(model.spec, model.weights);
  predictor.use(model.layout, threshold);
  for (const int layer : {0, 1}) {
    predictor.propose(model.call(layer), model.x.data());
    model.check_proposed(layer, threshold, model.cpu.to_host(model.work.wanted));
  }
}

TEST_CASE("the second next shared layer's predictor looks ahead, if that layer has a cache") {
  Predicted model({true, true, true, false});
  NeuronPredictor predictor(model.spec, model.weights);
  predictor.use(model.layout, 0.0f);
  const LayerCall first = model.call(0);
  const std::optional<Proposal> ahead = predictor.look_ahead(first);
  REQUIRE(ahead);
  CHECK(ahead->layer == 2);
  CHECK(ahead->set.index() == model.work.proposed.index());
  ahead->fill();
  model.check_proposed(2, 0.0f, model.cpu.to_host(model.work.proposed));
  CHECK_FALSE(predictor.look_ahead(model.call(1)));  // the last layer has no cache
  CHECK_FALSE(predictor.look_ahead(model.call(2)));  // there is no second next layer
  CHECK_FALSE(predictor.look_ahead(model.call(3)));

  predictor.use(model.in_file, 0.0f);  // no layer is shared
  CHECK_FALSE(predictor.look_ahead(first));
}

}  // namespace
}  // namespace hearth::test
