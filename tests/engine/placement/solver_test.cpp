// Tests the placement solver on the shapes of real models (such as 70B): how close it comes to the lower
// bound, and the properties that every solution must have.
// test_placement_oracle.py compares it with an integer program on small random models.
#include "engine/placement/solver.h"

#include <chrono>
#include <cstdio>

#include "profiler/plan/planned_model.h"
#include "tests/engine/placement/placement_machine.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

/// A shape in one mode, with all objects that refer to each other.
struct Case {
  Case(const char* shape, Sparsity mode, double concentration = 0)
      : model(model_of_shape(*find_shape(shape), DType::kQ4_0, mode == Sparsity::kDense ? "silu" : "")),
        basis(model, mode, {.context_tokens = 2048}) {
    std::optional<ActivityLaw> law = known_law(model.spec);
    if (law && concentration > 0) law->of_activations = concentration;
    activity = law ? law_activity(*law, model.spec) : dense_activity(model.spec);
    facts = model_facts(basis.inputs(), activity, true);
    facts.assumptions.prompt_tokens = 0;  // only decoding has a bound
    facts.assumptions.cache_margin = 1;
  }
  std::optional<PlacementSolution> solve(double vram_gib, double ram_gib = 128,
                                         const MachineProfile& machine = desktop()) const {
    return solve_placement(facts, CostModel(machine),
                           {.vram_bytes = static_cast<int64_t>(vram_gib * kGib),
                            .ram_bytes = static_cast<int64_t>(ram_gib * kGib)});
  }

  PlannedModel model;
  PlanBasis basis;
  ModelActivity activity;
  ModelFacts facts;
};

TEST_CASE("70B shapes are placed within 1 % of the bound, whatever the budget") {
  const Sparsity mode = GENERATE(Sparsity::kExact, Sparsity::kPredicted, Sparsity::kDense);
  const Case c("70b", mode);
  double slowest = 0;
  for (const double gib : {2.0, 6.0, 10.0, 16.0, 23.0, 32.0, 38.0}) {
    INFO("mode " << static_cast<int>(mode) << ", " << gib << " GiB");
    const auto begin = std::chrono::steady_clock::now();
    const std::optional<PlacementSolution> solution = c.solve(gib);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    slowest = std::max(slowest, seconds);
    REQUIRE(solution);
    CHECK(solution->seconds() <= 1.01 * solution->least_seconds);
    CHECK(solution->least_seconds <= solution->seconds());
    CHECK(solution->vram_bytes <= static_cast<int64_t>(gib * kGib));
    CHECK(solution->on_gpu);
  }
  std::printf("70b, mode %d: the slowest of seven budgets was solved in %.2f s\n", static_cast<int>(mode),
              slowest);
}

TEST_CASE("more memory never makes a placement slower, beyond the tolerance") {
  const Sparsity mode = GENERATE(Sparsity::kExact, Sparsity::kPredicted, Sparsity::kDense);
  const Case c("7b", mode);
  double before = 1e9;
  for (double gib = 0.5; gib < 6; gib += 0.25) {
    const std::optional<PlacementSolution> solution = c.solve(gib);
    REQUIRE(solution);
    CHECK(solution->seconds() <= before * (1 + kPlacementLimits.tolerance));
    before = solution->seconds();
  }
  CHECK(c.solve(0.5)->least_seconds >= before);  // and more is faster
}

TEST_CASE("where prompts count, attention that fits stays on the GPU") {
  Case c("13b", Sparsity::kPredicted);
  const std::optional<PlacementSolution> decoding = c.solve(5);
  c.facts.assumptions.prompt_tokens = PlacementAssumptions().prompt_tokens;
  const std::optional<PlacementSolution> both = c.solve(5);
  REQUIRE((decoding && both));
  CHECK(decoding->n_device_layers() < 40);
  CHECK(both->n_device_layers() == 40);
  CHECK(both->prefill_seconds < 0.9 * decoding->prefill_seconds);
  CHECK(both->least_seconds <= both->seconds());
}

TEST_CASE("the same question has the same answer") {
  const Case c("13b", Sparsity::kExact);
  const auto a = c.solve(5), b = c.solve(5);
  REQUIRE((a && b));
  CHECK(a->layers == b->layers);
  CHECK(a->least_seconds == b->least_seconds);
}

TEST_CASE("a faster part never makes a placement slower") {
  const Case c("13b", Sparsity::kPredicted);
  const double before = c.solve(4)->seconds() * (1 + kPlacementLimits.tolerance);
  MachineProfile machine = desktop();
  machine.host.ram_read = {{8, 100e9}};
  CHECK(c.solve(4, 128, machine)->seconds() < before);
  machine = desktop();
  machine.gpu->to_device_pinned_bytes_per_s *= 2;
  // A faster link takes more of RAM's rate from the CPU, and not all that it brings is wanted.
  CHECK(c.solve(4, 128, machine)->seconds() <= 1.03 * before);
  machine = desktop();
  machine.gpu->round_trip_s /= 2;
  CHECK(c.solve(4, 128, machine)->seconds() <= before);
}

TEST_CASE("concentrated activity leaves less work to the CPU") {
  const Case even("70b", Sparsity::kPredicted, 0.5), skewed("70b", Sparsity::kPredicted, 0.9);
  CHECK(skewed.solve(23)->caught > even.solve(23)->caught + 0.05);
  CHECK(skewed.solve(23)->seconds() < even.solve(23)->seconds());
}

TEST_CASE("a hand-over that costs more than it saves is not made") {
  const Case c("7b", Sparsity::kDense);
  MachineProfile machine = desktop();
  const auto layers_shared = [&](double round_trip_s) {
    machine.gpu->round_trip_s = round_trip_s;
    const std::optional<PlacementSolution> solution = c.solve(3, 128, machine);
    int n = 0;
    for (const LayerOption& layer : solution->layers) {
      n += layer.on_device && layer.n_hot < c.facts.d_ff;
    }
    return n;
  };
  // A layer is either the GPU's or the CPU's as a whole, apart from rounding to integers.
  CHECK(layers_shared(5e-3) <= 1);
  CHECK(layers_shared(1e-6) > 5);
}

TEST_CASE("a model that fits is placed wholly on the GPU, and on the CPU without a GPU") {
  const Case c("7b", Sparsity::kExact);
  const auto whole = c.solve(23);
  REQUIRE(whole);
  CHECK(whole->vram_bytes == c.facts.vram_whole);
  CHECK(whole->work.hand_overs < 1e-4);  // one, to the GPU
  CHECK(whole->caught == 1);
  const auto cpu = c.solve(0, 128, desktop(false));
  REQUIRE(cpu);
  CHECK_FALSE(cpu->on_gpu);
  CHECK(cpu->vram_bytes == 0);
  CHECK(cpu->work.bytes.host_whole > 1e9);
  CHECK(cpu->seconds() > whole->seconds());
}

TEST_CASE("too little RAM gives no placement, and the least is reported") {
  const Case c("70b", Sparsity::kExact);
  const auto gpu = static_cast<int64_t>(23.0 * kGib);
  const int64_t least = least_ram(c.facts, CostModel(desktop()), gpu);
  CHECK(least > 5 * kGib);
  CHECK(least < 30 * kGib);
  CHECK_FALSE(c.solve(23, static_cast<double>(least) / kGib * 0.99));
  CHECK(c.solve(23, static_cast<double>(least) / kGib * 1.02));
  const int64_t cpu_only = least_ram(c.facts, CostModel(desktop(false)), 0);
  CHECK(cpu_only > static_cast<int64_t>(35.0 * kGib));
  CHECK_FALSE(c.solve(0, static_cast<double>(cpu_only) / kGib * 0.99, desktop(false)));
}

TEST_CASE("less VRAM than one layer needs leaves the model to the CPU") {
  const Case c("7b", Sparsity::kExact);
  const double least = static_cast<double>(c.facts.vram_least) / kGib;
  const auto below = c.solve(least * 0.9);
  REQUIRE(below);
  CHECK_FALSE(below->on_gpu);
}

}  // namespace
}  // namespace hearth::testing
