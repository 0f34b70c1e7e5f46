// MixtureVerifier samples steps, and finds results that differ in any bit.
#include "engine/forward/mixture_verifier.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kModelDim = 4, kExperts = 3;

ModelSpec spec_of_mixture() {
  ModelSpec spec;
  spec.d_model = kModelDim;
  spec.mixture.n_experts = kExperts;
  return spec;
}

/// A layer of n_tokens tokens in host memory, with different values everywhere.
struct Layer {
  explicit Layer(int n)
      : n_tokens(n), x(values(kModelDim, 0.5f)), logits(values(kExperts, 3)), out(values(kModelDim, 7)) {}

  LayerCall call() {
    return {.backend = cpu,
            .work = work,
            .layer = 5,
            .neurons = neurons,
            .normed = x.data(),
            .x = x.data(),
            .n_tokens = n_tokens,
            .out = out.data()};
  }
  std::vector<float> values(int n_cols, float first) const {
    std::vector<float> values(static_cast<size_t>(n_tokens * n_cols));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i) / 3;
    return values;
  }

  int n_tokens;
  CpuBackend cpu{1, supported_isas().front()};
  FfnWorkspace work;
  NeuronLayer neurons;
  std::vector<float> x, logits, out;
};

TEST_CASE("one step of 64 is verified, or the first comparable step afterward") {
  const ModelSpec spec = spec_of_mixture();
  MixtureVerifier verifier(spec, 8, {});
  CHECK_FALSE(verifier.verifies_step());
  std::vector<int> verified;
  for (int step = 0; step < 300; ++step) {
    const bool comparable = step != 0 && step != 1 && step != 130 && step != 131;
    const bool begun = verifier.begin_step(comparable);
    CHECK(begun == verifier.verifies_step());
    if (begun) verified.push_back(step);
  }
  CHECK(verified == std::vector{2, 66, 132, 196, 260});
}

TEST_CASE("a result that differs in one bit of a verified token is counted, and the first is reported") {
  const ModelSpec spec = spec_of_mixture();
  std::vector<std::string> warnings;
  MixtureVerifier verifier(spec, 64, [&](const std::string& sentence) { warnings.push_back(sentence); });
  const auto n_tokens = GENERATE(1, MixtureVerifier::kMaxTokens, MixtureVerifier::kMaxTokens + 3);
  Layer layer(n_tokens);
  const std::vector<float> before = layer.out, mixture = layer.values(kModelDim, -1);
  /// Runs the layer with a result to which `change` is applied.
  const auto run = [&](auto change) {
    layer.out = before;
    verifier.copy_inputs(layer.call(), layer.logits.data());
    for (size_t i = 0; i < layer.out.size(); ++i) layer.out[i] += mixture[i];
    change(layer.out);
    verifier.compare(layer.call(), mixture.data());
  };
  run([](std::vector<float>&) {});
  const MixtureVerifier::Inputs in = verifier.inputs();
  CHECK(in.n_tokens == std::min(n_tokens, MixtureVerifier::kMaxTokens));
  const auto n = static_cast<size_t>(in.n_tokens);
  CHECK(std::equal(in.x, in.x + n * kModelDim, layer.x.begin()));
  CHECK(std::equal(in.logits, in.logits + n * kExperts, layer.logits.begin()));
  CHECK(verifier.totals().layers == 1);
  CHECK(verifier.totals().mismatches == 0);
  CHECK(warnings.empty());

  const size_t last = n * kModelDim - 1;
  run([&](std::vector<float>& out) { out[last] = std::nextafter(out[last], 1e9f); });
  CHECK(verifier.totals().mismatches == 1);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(),
             ContainsSubstring("in layer 5, 1 of " + std::to_string(last + 1) + " values") &&
                 ContainsSubstring("--device cpu"));
  run([&](std::vector<float>& out) { out[0] = std::numeric_limits<float>::quiet_NaN(); });
  CHECK(verifier.totals().layers == 3);
  CHECK(verifier.totals().mismatches == 2);
  CHECK(warnings.size() == 1);
  // Tokens after the first kMaxTokens are not compared.
  run([&](std::vector<float>& out) {
    for (size_t i = last + 1; i < out.size(); ++i) out[i] = 0;
  });
  CHECK(verifier.totals().mismatches == 2);
}

TEST_CASE("a broken model's NaNs are no mismatch, whatever their bits") {
  const ModelSpec spec = spec_of_mixture();
  MixtureVerifier verifier(spec, 8, {});
  Layer layer(1);
  verifier.copy_inputs(layer.call(), layer.logits.data());
  std::vector<float> mixture(kModelDim, std::numeric_limits<float>::quiet_NaN());
  layer.out.assign(kModelDim, -std::numeric_limits<float>::quiet_NaN());
  verifier.compare(layer.call(), mixture.data());
  CHECK(verifier.totals().layers == 1);
  CHECK(verifier.totals().mismatches == 0);
}

}  // namespace
}  // namespace hearth::test
