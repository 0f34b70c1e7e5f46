// The chain of choices: properties on random chains, and cases that can be solved by hand.
// test_placement_oracle.py compares its choices with an integer program.
#include "engine/placement/choice_chain.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

ChoiceChain random_chain(unsigned seed, int n_layers, int n_options, bool ram_matters) {
  std::mt19937 rng(seed);
  ChoiceChain chain;
  for (int i = 0; i < n_layers; ++i) {
    std::vector<Choice>& options = chain.layers.emplace_back();
    options.push_back({.vram = 0, .ram = 2000, .seconds = 100, .on_device = false});
    for (int k = 1; k < n_options; ++k) {
      const auto vram = static_cast<int64_t>(rng() % 1000);
      options.push_back({.vram = vram,
                         .ram = 1000 - vram / 2 + static_cast<int64_t>(rng() % 100),
                         .seconds = 60.0 * std::exp(-0.003 * static_cast<double>(vram)) + rng() % 16,
                         .on_device = rng() % 4 != 0});
    }
  }
  chain.vram = 300 * n_layers;
  chain.ram = (ram_matters ? 950 : 3000) * n_layers;
  chain.crossing_seconds = 1;
  return chain;
}

void check_keeps_budgets(const ChoiceChain& chain, const ChosenChain& chosen) {
  int64_t vram = 0, ram = 0;
  for (size_t i = 0; i < chain.layers.size(); ++i) {
    const Choice& choice = chain.layers[i][static_cast<size_t>(chosen.picks[i])];
    vram += choice.vram;
    ram += choice.ram;
  }
  CHECK(vram <= chain.vram);
  CHECK(ram <= chain.ram);
  CHECK(chosen.seconds == Approx(seconds_of(chain, chosen.picks)));
  CHECK(chosen.least_seconds <= chosen.seconds);
}

TEST_CASE("a chain of many layers is solved to within the tolerance, the same every time") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    const ChoiceChain chain = random_chain(seed, 60, 80, seed % 2 == 0);
    const std::optional<ChosenChain> chosen = choose(chain, {.tolerance = 1e-3, .max_labels = 2000});
    REQUIRE(chosen);
    check_keeps_budgets(chain, *chosen);
    CHECK(chosen->seconds <= chosen->least_seconds * 1.001);
    const std::optional<ChosenChain> again = choose(chain, {.tolerance = 1e-3, .max_labels = 2000});
    REQUIRE(again);
    CHECK(again->picks == chosen->picks);
    CHECK(again->least_seconds == chosen->least_seconds);
  }
}

TEST_CASE("more bytes never take more time") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    ChoiceChain chain = random_chain(seed, 4, 8, false);
    double before = std::numeric_limits<double>::infinity();
    for (chain.vram = 0; chain.vram <= 4000; chain.vram += 125) {
      const std::optional<ChosenChain> chosen = choose(chain, {});
      REQUIRE(chosen);
      CHECK(chosen->proved);
      CHECK(chosen->seconds <= before * (1 + 1e-12));
      before = chosen->seconds;
    }
  }
}

TEST_CASE("a change of side is made only if it is worth its cost") {
  // The middle layer alone would be faster on the CPU by 2.
  ChoiceChain chain;
  for (const double cpu : {9.0, 3.0, 9.0}) {
    chain.layers.push_back(
        {{.seconds = cpu, .on_device = false}, {.vram = 1, .seconds = 5, .on_device = true}});
  }
  chain.vram = 3;
  chain.begins_on_device = true;
  chain.crossing_seconds = 0.75;  // 1.5 there and back
  CHECK(choose(chain, {})->picks == std::vector<int32_t>{1, 0, 1});
  chain.crossing_seconds = 1.25;
  CHECK(choose(chain, {})->picks == std::vector<int32_t>{1, 1, 1});
  CHECK(choose(chain, {})->seconds == 15);
  // Without room for all: one change of sides at the chain's beginning is the cheapest way.
  chain.vram = 2;
  chain.begins_on_device = false;
  CHECK(choose(chain, {})->picks == std::vector<int32_t>{1, 0, 1});
  chain.crossing_seconds = 4;
  CHECK(choose(chain, {})->picks == std::vector<int32_t>{0, 0, 1});
}

TEST_CASE("budgets that no choice keeps have no answer") {
  ChoiceChain chain;
  chain.layers = {{{.vram = 4, .ram = 1, .seconds = 1, .on_device = true},
                   {.vram = 1, .ram = 4, .seconds = 1, .on_device = true}}};
  chain.vram = 3;
  chain.ram = 3;
  CHECK_FALSE(choose(chain, {}));
  chain.vram = 4;
  CHECK(choose(chain, {})->picks == std::vector<int32_t>{0});
  chain.vram = 0;
  chain.ram = 4;
  CHECK_FALSE(choose(chain, {}));
}

TEST_CASE("no layers take no time") {
  ChoiceChain chain;
  chain.ends_on_device = false;
  const std::optional<ChosenChain> chosen = choose(chain, {});
  REQUIRE(chosen);
  CHECK(chosen->picks.empty());
  CHECK(chosen->seconds == 0);
}

}  // namespace
}  // namespace hearth::testing
