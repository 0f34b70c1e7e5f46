// Placement of a mixture's experts by the solver: hand-made activity and budgets, and what must hold for
// every solution. place_model_test.cpp executes such placements.
#include <bit>
#include <numeric>

#include "engine/placement/place_model.h"
#include "engine/placement/solver.h"
#include "profiler/plan/planned_model.h"
#include "tests/engine/placement/placement_machine.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

/// A mixture and the activity of its experts, even at first.
struct Mixture {
  explicit Mixture(const ModelShape& shape, bool experts = true, DType type = DType::kQ4_0)
      : model(model_of_shape(shape, type, "")),
        basis(model, Sparsity::kDense, {.context_tokens = 2048, .experts = experts}),
        activity(even_expert_activity(model.spec)) {
    set_facts();
  }
  explicit Mixture(const char* shape, bool experts = true) : Mixture(*find_shape(shape), experts) {}

  void set_facts() {
    facts = model_facts(basis.inputs(), activity, true);
    facts.assumptions.prompt_tokens = 0;  // only decoding counts, unless a test says otherwise
  }

  /// Sets how often each expert of each layer is chosen, by its number.
  template <class ShareOf>
  void choose(const ShareOf& share_of) {
    ActivityCounts counts(model.spec.n_layers, model.spec.mixture.n_experts, true);
    counts.n_tokens = 1000;
    for (int layer = 0; layer < model.spec.n_layers; ++layer) {
      for (int e = 0; e < model.spec.mixture.n_experts; ++e)
        counts.active[counts.index(layer, e)] = static_cast<uint32_t>(1000 * share_of(layer, e) + 0.5);
    }
    activity = counted_activity(counts, "by hand");
    set_facts();
  }

  std::optional<PlacementSolution> solve(int64_t vram, bool by_layers = false,
                                         const MachineProfile& machine = desktop(),
                                         int64_t ram = 128 * kGib) const {
    return solve_placement(
        facts, CostModel(machine),
        {.vram_bytes = vram, .ram_bytes = ram, .cache = false, .by_layers = by_layers, .streams = false});
  }

  /// Returns the bytes of all layers without experts, plus those of n experts in each of n_layers layers.
  int64_t bytes_for(int64_t n, int n_layers) const {
    int64_t bytes = facts.vram_fixed + (n > 0 ? facts.vram_experts : 0);
    for (const LayerFacts& layer : facts.layers) bytes += layer.vram_shared;
    const LayerFacts& layer = facts.layers.front();
    return bytes + n_layers * (layer.vram_expert_tables + n * layer.vram_expert);
  }

  PlannedModel model;
  PlanBasis basis;
  ModelActivity activity;
  ModelFacts facts;
};

int64_t n_resident(const PlacementSolution& solution) {
  int64_t n = 0;
  for (const LayerOption& layer : solution.layers) n += layer.n_experts;
  return n;
}

TEST_CASE("experts that more memory holds never make a token slower, and none slower than without them") {
  const Mixture with("qwen3-30b-a3b"), without("qwen3-30b-a3b", false);
  double before = 1e9;
  for (double gib = 1; gib < 20; gib += 1.5) {
    INFO(gib << " GiB");
    const auto vram = static_cast<int64_t>(gib * kGib);
    const auto solution = with.solve(vram), none = without.solve(vram);
    REQUIRE((solution && none));
    CHECK(n_resident(*none) == 0);
    CHECK(solution->vram_bytes <= vram);
    CHECK(solution->least_seconds <= solution->seconds());
    CHECK(solution->seconds() <= 1.01 * solution->least_seconds);
    CHECK(solution->seconds() <= none->seconds() * (1 + kPlacementLimits.tolerance));
    CHECK(solution->seconds() <= before * (1 + kPlacementLimits.tolerance));
    before = solution->seconds();
  }
  CHECK(before < 0.35 * without.solve(20 * kGib)->seconds());
}

TEST_CASE("a layer's time is the mean over the ways to divide a token's experts between GPU and CPU") {
  const Mixture mixture("qwen3-30b-a3b");
  const CostModel cost(desktop());
  const LayerOptions options(mixture.facts, 5, cost, false);
  const int k = mixture.facts.n_used;
  double most_gained = 0;
  for (const int64_t n_experts : {16, 64, 96, 112, 127}) {
    INFO(n_experts);
    const LayerOption option{
        .on_device = true, .all_gates = false, .n_hot = mixture.facts.d_ff, .n_experts = n_experts};
    const double own = static_cast<double>(n_experts) / 128;
    double mean = 0;
    for (uint32_t on_gpu = 0; on_gpu < (1U << k); ++on_gpu) {  // one bit for each expert of the token
      double probability = 1;
      for (int i = 0; i < k; ++i) probability *= (on_gpu >> i & 1) != 0 ? own : 1 - own;
      const MixtureSeconds token =
          options.mixture_seconds(Held::kSome, static_cast<double>(std::popcount(on_gpu)) / k);
      mean += probability * std::max(token.host, token.device - token.begin);
    }
    const TokenWork work = options.work(option);
    CHECK(work.cold_neurons + work.device_neurons == Approx(mean));
    const MixtureSeconds average = options.mixture_seconds(Held::kSome, own);
    const double of_averages = std::max(average.host, average.device - average.begin);
    CHECK(mean >= of_averages * (1 - 1e-9));
    most_gained = std::max(most_gained, mean / of_averages);
  }
  CHECK(most_gained > 1.1);
}

TEST_CASE("attention of all layers comes before experts") {
  const Mixture with("qwen3-30b-a3b"), without("qwen3-30b-a3b", false);
  const int64_t attention = with.bytes_for(0, 0);
  const auto none = with.solve(attention);
  REQUIRE(none);
  CHECK(none->n_device_layers() == 48);
  CHECK(n_resident(*none) == 0);
  CHECK(none->layers == without.solve(attention)->layers);
  const auto some = with.solve(attention + kGib);
  CHECK(some->n_device_layers() == 48);
  CHECK(n_resident(*some) > 0);
}

TEST_CASE("a layer with a few experts that are always chosen gets these, and an even one none") {
  Mixture mixture("qwen3-30b-a3b");
  mixture.choose([](int layer, int e) { return layer % 2 == 1 ? (e % 16 == 3 ? 1.0 : 0.0) : 8.0 / 128; });
  const auto solution = mixture.solve(mixture.bytes_for(8, 24));
  REQUIRE(solution);
  for (size_t i = 0; i < solution->layers.size(); ++i) {
    INFO(i);
    CHECK(solution->layers[i].n_experts == (i % 2 == 1 ? 8 : 0));
  }
  CHECK(solution->caught == Approx(0.5).margin(0.01));
  const std::vector<LayerPlacement> layers =
      layer_placements(*solution, mixture.basis.inputs(), mixture.activity);
  CHECK(layers[1].experts == std::vector<int32_t>{3, 19, 35, 51, 67, 83, 99, 115});
  CHECK(layers[1].hot.size() == static_cast<size_t>(mixture.model.spec.d_ff));
  CHECK(layers[0].experts.empty());
  CHECK(layers[0].on_device);
}

TEST_CASE("skewed layers get more experts than even ones") {
  Mixture mixture("qwen3-30b-a3b");
  mixture.choose([](int layer, int e) { return layer < 24 ? (e < 32 ? 0.24 : 0.32 / 96) : 8.0 / 128; });
  const auto solution = mixture.solve(mixture.bytes_for(20, 48));
  REQUIRE(solution);
  int64_t skewed = 0;
  for (size_t i = 0; i < 24; ++i) skewed += solution->layers[i].n_experts;
  CHECK(skewed > 2 * (n_resident(*solution) - skewed));
}

TEST_CASE("with prompts, a placement reads prompts no slower than one for decoding alone") {
  Mixture mixture("qwen3-30b-a3b");
  mixture.choose([](int, int e) { return e < 32 ? 0.2 : 1.6 / 96; });
  const auto decoding = mixture.solve(mixture.bytes_for(70, 48));
  mixture.facts.assumptions.prompt_tokens = PlacementAssumptions().prompt_tokens;
  const auto both = mixture.solve(mixture.bytes_for(70, 48));
  REQUIRE((decoding && both));
  CHECK(both->prefill_seconds <= decoding->prefill_seconds * (1 + kPlacementLimits.tolerance));
  CHECK(both->prompt.seconds() == both->prefill_seconds);
}

TEST_CASE(
    "with even choices the solver is at least as good as a spread placement, with prompts and without") {
  Mixture mixture("qwen3-30b-a3b");
  const int64_t vram = mixture.bytes_for(64, 48);
  const auto work_of = [&](const std::vector<LayerOption>& layers) {
    const CostModel cost(desktop());
    double seconds = 0, prompt = 0;
    for (int i = 0; i < 48; ++i) {
      const LayerOptions options(mixture.facts, i, cost, false);
      seconds += options.work(layers[static_cast<size_t>(i)]).seconds();
      prompt += options.prompt_work(layers[static_cast<size_t>(i)], false).seconds();
    }
    return std::pair(seconds, prompt);
  };
  const LayerOption half{.on_device = true, .all_gates = false, .n_hot = mixture.facts.d_ff, .n_experts = 64};
  const auto spread = work_of(std::vector<LayerOption>(48, half));
  const auto decoding = mixture.solve(vram);
  CHECK(work_of(decoding->layers).first <= spread.first * (1 + kPlacementLimits.tolerance));
  mixture.facts.assumptions.prompt_tokens = PlacementAssumptions().prompt_tokens;
  const auto both = mixture.solve(vram);
  const auto whole = work_of(both->layers);
  CHECK(whole.first + 4 * whole.second <=
        (spread.first + 4 * spread.second) * (1 + kPlacementLimits.tolerance));
}

TEST_CASE("where a GPU's memory is not much faster than RAM, layers share experts instead") {
  const Mixture mixture("mixtral-8x7b");
  MachineProfile machine = desktop();
  machine.gpu->vram_bytes_per_s = 1.5 * machine.host.ram_read.back().bytes_per_s;
  const auto solution = mixture.solve(mixture.bytes_for(4, 32), false, machine);
  REQUIRE(solution);
  const auto n_shared = std::ranges::count_if(
      solution->layers, [](const LayerOption& o) { return o.n_experts > 0 && o.n_experts < 8; });
  CHECK(n_shared > 16);
}

TEST_CASE("a mixture that fits is wholly on the GPU, hands nothing over and needs no RAM for experts") {
  const Mixture mixture("qwen3-30b-a3b");
  const auto whole = mixture.solve(mixture.facts.vram_whole);
  REQUIRE(whole);
  CHECK(n_resident(*whole) == 48 * 128);
  CHECK(whole->vram_bytes == mixture.facts.vram_whole);
  CHECK(whole->caught == Approx(1));
  CHECK(whole->work.hand_overs < 1e-4);
  CHECK(whole->work.cold_neurons == 0);
  CHECK(whole->ram_bytes < mixture.facts.ram_fixed + kGib / 100);
  const auto less = mixture.solve(mixture.facts.vram_whole - 1);
  CHECK(n_resident(*less) < 48 * 128);
  CHECK(n_resident(*less) > 47 * 128);
  CHECK(less->ram_bytes > whole->ram_bytes);
}

TEST_CASE("RAM and VRAM together may hold a mixture that neither holds alone") {
  const Mixture mixture("qwen3-30b-a3b");
  const auto solution = mixture.solve(10 * kGib, false, desktop(), 9 * kGib);
  REQUIRE(solution);
  CHECK(solution->ram_bytes <= 9 * kGib);
  CHECK_FALSE(mixture.solve(4 * kGib, false, desktop(), 9 * kGib));
  CHECK(least_ram(mixture.facts, CostModel(desktop()), 10 * kGib) <= solution->ram_bytes);
}

TEST_CASE("split by layers, a layer has all of its experts on the GPU or none") {
  const Mixture mixture("qwen3-30b-a3b");
  const auto solution = mixture.solve(8 * kGib, true);
  REQUIRE(solution);
  CHECK(solution->n_device_layers() == 48);
  CHECK(n_resident(*solution) > 10 * 128);
  for (const LayerOption& layer : solution->layers) CHECK((layer.n_experts == 0 || layer.n_experts == 128));
}

TEST_CASE("experts that the CPU reads as fast stay with it") {
  const Mixture mixture("qwen3-30b-a3b");
  MachineProfile machine = desktop();
  for (ReadRate& rate : machine.host.ram_read) rate.bytes_per_s *= 100;
  machine.gpu->launch_s = 20e-6;
  const auto solution = mixture.solve(24 * kGib, false, machine);
  REQUIRE(solution);
  CHECK(n_resident(*solution) == 0);
}

TEST_CASE("a mixture of one layer is placed, with dense layers before it and without") {
  ModelShape shape = *find_shape("glm-4.5-air");
  for (const int n_dense : {0, 1}) {
    INFO(n_dense);
    shape.n_layers = n_dense + 1;
    shape.n_dense = n_dense;
    const Mixture mixture(shape);
    for (const int64_t vram :
         {mixture.bytes_for(0, 0), mixture.facts.vram_whole / 2, mixture.facts.vram_whole}) {
      const auto solution = mixture.solve(vram);
      REQUIRE(solution);
      CHECK(solution->vram_bytes <= vram);
      CHECK(solution->layers.back().n_experts <= 128);
      if (n_dense > 0) CHECK(solution->layers.front().n_experts == 0);
      if (vram == mixture.facts.vram_whole) CHECK(solution->layers.back().n_experts == 128);
    }
  }
}

TEST_CASE("activity of another model's shape does not fit") {
  const Mixture qwen("qwen3-30b-a3b"), mixtral("mixtral-8x7b");
  CHECK(fits(qwen.activity, qwen.model.spec));
  CHECK_FALSE(fits(qwen.activity, mixtral.model.spec));
  CHECK_FALSE(fits(dense_activity(qwen.model.spec), qwen.model.spec));
}

}  // namespace
}  // namespace hearth::testing
