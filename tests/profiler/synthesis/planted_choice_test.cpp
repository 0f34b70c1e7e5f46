// Routing without a model: experts differ, are skewed and reused as synth plants them, and are equal in every
// run.
#include "profiler/synthesis/planted_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "profiler/plan/planned_model.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

ModelSpec spec_of(const char* shape) { return model_of_shape(*find_shape(shape), DType::kQ4_0, "").spec; }

/// The experts [n_tokens, n_used] of each layer that has any, for a step of n tokens of a sequence.
std::vector<std::vector<int32_t>> choices(PlantedChoice& planted, int n_layers, int first, int n) {
  std::vector<int32_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), first);
  planted.begin_step(std::vector<int32_t>(static_cast<size_t>(n), 0), positions);
  std::vector<std::vector<int32_t>> all;
  for (int i = 0; i < n_layers; ++i) {
    const ExpertChoice choice = planted.next_layer();
    CHECK(choice.n_tokens == n);
    all.emplace_back(choice.experts, choice.experts + int64_t{n} * choice.n_used);
  }
  return all;
}

TEST_CASE("planted choice: a token's experts are distinct, specific to the layer, and the same in any step") {
  const ModelSpec spec = spec_of("qwen3-30b-a3b");
  PlantedChoice planted(spec), other(spec);
  const auto together = choices(planted, 48, 0, 20);
  CHECK(together == choices(other, 48, 0, 20));
  CHECK(together[0] != together[1]);
  for (const std::vector<int32_t>& layer : together) {
    for (size_t t = 0; t < 20; ++t) {
      const std::set<int32_t> experts(layer.begin() + static_cast<int64_t>(8 * t),
                                      layer.begin() + static_cast<int64_t>(8 * t + 8));
      CHECK(experts.size() == 8);
      CHECK(*experts.begin() >= 0);
      CHECK(*experts.rbegin() < 128);
    }
  }
  const auto alone = choices(planted, 48, 19, 1);
  for (size_t layer = 0; layer < 48; ++layer)
    CHECK(std::equal(alone[layer].begin(), alone[layer].end(), together[layer].end() - 8));
}

TEST_CASE(
    "planted choice: a quarter of the experts gets half of the choices, and half change with each token") {
  PlantedChoice planted(spec_of("qwen3-30b-a3b"));
  const int n = 600;
  int64_t common = 0, of_hottest = 0;
  for (const std::vector<int32_t>& layer : choices(planted, 4, 0, n)) {
    std::vector<int64_t> uses(128);
    for (const int32_t expert : layer) ++uses[static_cast<size_t>(expert)];
    std::ranges::sort(uses, std::greater());
    of_hottest += std::accumulate(uses.begin(), uses.begin() + 32, int64_t{0});
    for (int t = 1; t < n; ++t) {
      const std::set<int32_t> before(layer.begin() + 8 * (t - 1), layer.begin() + 8 * t);
      for (int j = 0; j < 8; ++j) common += before.contains(layer[static_cast<size_t>(8 * t + j)]) ? 1 : 0;
    }
  }
  CHECK(static_cast<double>(of_hottest) / (4.0 * n * 8) == Approx(0.52).margin(0.06));
  CHECK(static_cast<double>(common) / (4.0 * (n - 1) * 8) == Approx(0.5).margin(0.06));
}

TEST_CASE("planted choice: a step's tokens choose fewer experts than with independent even choices") {
  const ModelSpec spec = spec_of("qwen3-30b-a3b");
  CHECK(mean_experts_chosen(spec, 1) == 8);
  double before = 8;
  for (const int n : {2, 8, 32, 128}) {
    const double chosen = mean_experts_chosen(spec, n);
    CHECK(chosen > before);
    CHECK(chosen < 128 * (1 - std::pow(1 - 8.0 / 128, n)));
    before = chosen;
  }
  CHECK(before > 100);
}

TEST_CASE("planted choice: experts are chosen, and repeated, as often as was counted") {
  const ModelSpec spec = spec_of("tiny-moe");  // 4 of 16
  ActivityCounts counts(4, 16, true);
  counts.n_tokens = 1000;
  counts.n_pairs = 999;
  for (int layer = 0; layer < 4; ++layer) {
    for (int e = 0; e < 16; ++e) {
      counts.active[counts.index(layer, e)] = e < 2 ? 950 : e < 6 ? 450 : 30;
      counts.again[counts.index(layer, e)] = counts.active[counts.index(layer, e)] * 7 / 10;
    }
  }
  PlantedChoice planted(spec, &counts);
  for (const std::vector<int32_t>& layer : choices(planted, 4, 0, 500)) {
    std::vector<int> uses(16);
    for (const int32_t expert : layer) ++uses[static_cast<size_t>(expert)];
    std::ranges::sort(uses, std::greater());
    CHECK(uses[1] > 400);
    CHECK(uses[5] > 120);
    CHECK(uses[6] < 60);
  }
}

TEST_CASE("planted choice: layers without experts are skipped, and models without any need nothing") {
  const ModelSpec spec = spec_of("glm-4.5-air");
  PlantedChoice planted(spec);
  CHECK(choices(planted, spec.n_layers - 1, 0, 1).size() == 45);
  PlantedChoice none(spec_of("7b"));
  none.begin_step(std::vector<int32_t>{0}, std::vector<int32_t>{3});
}

}  // namespace
}  // namespace hearth::test
