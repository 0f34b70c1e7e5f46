// Tests which bytes each device reads for a token. Compares them with sums of tensor sizes, on a small model
// with predictors.
#include "engine/residency/token_bytes.h"

#include <numeric>

#include "engine/model/model_file.h"
#include "engine/residency/plan.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// A model of two layers.
struct BoundModel {
  BoundModel() {
    TinyModel().powerinfer().write(folder / "model.gguf");
    file.emplace(ModelFile::open(folder / "model.gguf"));
    spec = read_model_spec(*file, "relu");
    weights = bind_weights(*file, spec);
    for (const LayerWeights& layer : weights.layers) {
      for (const Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.attention_out}) {
        attention += static_cast<double>(linear->weight.bytes());
      }
      gates += static_cast<double>(layer.gate.weight.bytes());
      ups += static_cast<double>(layer.up.weight.bytes());
      downs += static_cast<double>(layer.down_rows.weight.bytes());
      predictors += static_cast<double>(layer.predictor_in.bytes() + layer.predictor_out.bytes());
    }
    output = static_cast<double>(weights.output.weight.bytes());
  }
  /// Gives the device this share of the neurons of both layers.
  std::vector<LayerPlacement> placements(double share, bool all_gates) const {
    LayerPlacement placement;
    placement.all_gates = all_gates;
    placement.hot.resize(static_cast<size_t>(share * spec.d_ff));
    std::iota(placement.hot.begin(), placement.hot.end(), 0);
    return {placement, placement};
  }
  TokenBytes bytes(Sparsity mode, const NeuronActivity& activity,
                   const std::vector<LayerPlacement>& placements) const {
    return token_bytes(spec, weights, mode, activity, placements);
  }

  TempFolder folder;
  std::optional<ModelFile> file;
  ModelSpec spec;
  Weights weights;
  double attention = 0, gates = 0, ups = 0, downs = 0, predictors = 0, output = 0;  // of both layers
};

NeuronActivity some_activity(double cold) {
  return {.n_tokens = 1, .proposed = 0.5, .passed = 0.25, .active = 0.125, .cold = cold};
}

}  // namespace

TEST_CASE("token bytes: without placements the CPU reads all") {
  const BoundModel model;
  const TokenBytes found = model.bytes(Sparsity::kExact, some_activity(0), {});
  CHECK(found.host_whole ==
        Approx(model.output + model.attention + model.gates + model.ups / 4 + model.downs / 8));
  CHECK(found.sum() == found.host_whole);
}

TEST_CASE("token bytes: a mixture without a shared expert reads what the token uses and nothing else") {
  const ModelFile file =
      ModelFile::open(std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch/qwen3moe.gguf");
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  CHECK(token_bytes(spec, weights, Sparsity::kDense, {}, {}).sum() ==
        static_cast<double>(weights.bytes_per_token(spec)));
}

TEST_CASE("token bytes: in a device's layers the CPU reads the experts that the device does not hold") {
  const ModelFile file =
      ModelFile::open(std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch/qwen3moe.gguf");
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  std::vector<LayerPlacement> layers(static_cast<size_t>(spec.n_layers), whole_layer(spec));
  double experts = 0;
  for (const LayerWeights& layer : weights.layers)
    experts += spec.mixture.n_used * static_cast<double>(expert_bytes(layer.mixture.experts.front()));
  const TokenBytes none = token_bytes(spec, weights, Sparsity::kDense, {}, layers);
  CHECK(none.cold_neurons == Approx(experts));
  CHECK(none.device_neurons == 0);
  CHECK(none.sum() == Approx(static_cast<double>(weights.bytes_per_token(spec))));
  for (LayerPlacement& layer : layers) layer.experts = {0, 2};
  const TokenBytes two = token_bytes(spec, weights, Sparsity::kDense, {}, layers);
  CHECK(two.device_neurons == Approx(experts * 2 / spec.mixture.n_experts));
  CHECK(two.sum() == Approx(none.sum()));
}

TEST_CASE("token bytes: the sum does not depend on who reads them") {
  const BoundModel model;
  const Sparsity mode = GENERATE(Sparsity::kDense, Sparsity::kExact, Sparsity::kPredicted);
  const double all = model.bytes(mode, some_activity(0), {}).sum();
  for (const double share : {0.0, 0.25, 1.0}) {
    for (const double cold : {-1.0, 0.0, 0.5, 1.0}) {
      for (const bool all_gates : {false, true}) {
        std::vector<LayerPlacement> placements = model.placements(share, all_gates);
        CHECK(model.bytes(mode, some_activity(cold), placements).sum() == Approx(all));
        placements[0].on_device = false;
        CHECK(model.bytes(mode, some_activity(cold), placements).sum() == Approx(all));
      }
    }
  }
}

TEST_CASE("token bytes: a predicted run's rows are split by the counts, or by the hot neurons") {
  const BoundModel model;
  const double rows = model.gates / 2 + model.ups / 4 + model.downs / 8;
  const auto placements = model.placements(0.5, false);
  const TokenBytes counted = model.bytes(Sparsity::kPredicted, some_activity(0.125), placements);
  CHECK(counted.device_whole == Approx(model.output + model.attention + model.predictors));
  CHECK(counted.cold_neurons == Approx(rows / 8));
  CHECK(counted.device_neurons == Approx(rows * 7 / 8));
  CHECK(counted.host_whole == 0);
  CHECK(model.bytes(Sparsity::kPredicted, some_activity(-1), placements).cold_neurons == Approx(rows / 2));
}

TEST_CASE("token bytes: gates are read whole by a device that has all of them, else by their owners") {
  const BoundModel model;
  const TokenBytes gates = model.bytes(Sparsity::kExact, some_activity(0.5), model.placements(0.25, true));
  CHECK(gates.device_whole == Approx(model.output + model.attention + model.gates));
  CHECK(gates.cold_neurons == Approx((model.ups / 4 + model.downs / 8) / 2));
  const TokenBytes apart = model.bytes(Sparsity::kExact, some_activity(0.5), model.placements(0.25, false));
  CHECK(apart.cold_neurons == Approx(model.gates * 3 / 4 + (model.ups / 4 + model.downs / 8) / 2));
}

TEST_CASE("token bytes: cold neurons are only those of layers on the device") {
  const BoundModel model;
  std::vector<LayerPlacement> placements = model.placements(0.5, false);
  placements[0].on_device = false;
  const TokenBytes found = model.bytes(Sparsity::kPredicted, some_activity(0.25), placements);
  const double rows = (model.gates / 2 + model.ups / 4 + model.downs / 8) / 2;  // of one layer
  CHECK(found.cold_neurons == Approx(rows / 2));
  CHECK(found.device_neurons == Approx(rows / 2));
  const LayerWeights& first = model.weights.layers[0];
  double of_first = static_cast<double>(first.predictor_in.bytes() + first.predictor_out.bytes());
  for (const Linear* linear : {&first.q, &first.k, &first.v, &first.attention_out}) {
    of_first += static_cast<double>(linear->weight.bytes());
  }
  CHECK(found.host_whole == Approx(of_first + rows));
}

TEST_CASE("token bytes: a layer whose neurons are all hot reads none as cold, whatever was counted") {
  const BoundModel model;
  const TokenBytes found = model.bytes(Sparsity::kExact, some_activity(0.5), model.placements(1.0, false));
  CHECK(found.cold_neurons == 0);
  CHECK(found.host_whole == 0);
}

}  // namespace hearth::test
