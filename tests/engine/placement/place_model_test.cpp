// The solver's placements, executed by the engine on the emulated device: the tokens equal those of any other
// placement, and more of the active neurons are on the device than with the neutral plan, or with as many
// randomly chosen neurons.
#include "engine/placement/place_model.h"

#include <numeric>
#include <random>

#include "engine/model_runtime.h"
#include "profiler/activity/activity_csv.h"
#include "profiler/synthesis/synth_file.h"
#include "profiler/synthesis/synth_model.h"
#include "tests/engine/cuda/shares.h"
#include "tests/engine/placement/placement_machine.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace hearth::testing {
namespace {

/// A small model with skewed activity, and options that place it on a desktop that reads a thousand times
/// slower. So hand-overs take the same share of the time as with a large model.
class Skewed {
 public:
  Skewed() {
    SynthOptions options;
    options.shape = *find_shape("tiny");
    options.shape.n_vocab = 600;
    options.sparse = true;
    options.n_threads = 2;
    path_ = folder_.path() / "skewed.powerinfer.gguf";
    write_synth_file(path_, SynthKind::kSparse, options, make_synth_model(options, {}), false,
                     [](uint64_t) {});
  }

  LoadOptions options(const std::string& mode, DeviceChoice device) const {
    LoadOptions options;
    options.path = path_;
    options.n_threads = 2;
    options.n_slots = 1;
    options.context_tokens = 96;
    options.prefill_chunk = 16;
    options.sparsity.mode = mode;
    options.device = device;
    options.prefetch = false;
    options.split = DeviceSplit::kNeurons;
    options.placement.machine = slow_desktop();
    return options;
  }

  static std::vector<int32_t> text(int seed, int n = 80) {
    std::mt19937 rng(static_cast<unsigned>(seed));
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(3 + rng() % 590));
    return tokens;
  }

  /// The activity counted on a text, on the CPU.
  ModelActivity counted() const {
    const auto model = ModelRuntime::load(options("exact", DeviceChoice::kCpu));
    model->observation().count_activity();
    logits_of(*model, text(1), 16);
    const std::vector<uint32_t> hits = model->observation().take_activity().active;
    ActivityProfile profile;
    const ptrdiff_t d_ff = model->facts().spec.d_ff;
    for (auto at = hits.begin(); at != hits.end(); at += d_ff) profile.counts.emplace_back(at, at + d_ff);
    return counted_activity(profile, 80, 0, "a text");
  }

 private:
  hearth::test::TempFolder folder_;
  std::filesystem::path path_;
};

struct Ran {
  std::vector<float> logits;
  double hit_share = 0;  // the share of active neurons that is on the device
  Plan plan;
};

/// Runs another text than the one that was counted.
Ran run(const LoadOptions& options) {
  const auto model = ModelRuntime::load(options);
  model->observation().reset_activity();
  Ran ran{.logits = logits_of(*model, Skewed::text(2, 80 / static_cast<int>(kStride)), 1),
          .hit_share = 0,
          .plan = *model->placed().plan};
  ran.hit_share = 1 - model->observation().activity().cold;
  return ran;
}

/// As many neurons in each layer, but random ones.
std::vector<LayerPlacement> at_random(const std::vector<LayerPlacement>& like, int d_ff) {
  std::mt19937 rng(3);
  std::vector<LayerPlacement> layers = like;
  for (LayerPlacement& layer : layers) {
    std::vector<int32_t> ids(static_cast<size_t>(d_ff));
    for (int32_t j = 0; j < d_ff; ++j) ids[static_cast<size_t>(j)] = j;
    std::shuffle(ids.begin(), ids.end(), rng);
    ids.resize(layer.hot.size());
    std::sort(ids.begin(), ids.end());
    layer.hot = ids;
  }
  return layers;
}

TEST_CASE(
    "a placement by counts gives the same tokens and hits more often than without counts or at random") {
  const Skewed skewed;
  const std::string mode = GENERATE(from_range(some_of({"exact", "predicted"})));
  INFO(mode);
  LoadOptions options = skewed.options(mode, DeviceChoice::kCuda);
  size_t whole = 0;
  {
    const auto model = ModelRuntime::load(options);
    REQUIRE(model->placed().plan->whole());
    whole = model->placed().plan->device.total() - model->placed().plan->device.hot / 2;
  }
  // Half of the neurons' bytes.
  options.vram_budget_bytes = whole;
  const Ran uncounted = run(options);
  REQUIRE(uncounted.plan.shares);

  std::optional<PlacementSolution> found;
  options.placement.activity = skewed.counted();
  options.placement.found = [&found](const PlacementSolution& solution) { found = solution; };
  const Ran solved = run(options);
  REQUIRE(found);
  CHECK(solved.plan.shares);
  CHECK(solved.plan.device.total() <= whole);
  CHECK(solved.plan.device.total() > whole - whole / 50);  // and uses almost all that it may

  options.choose_placement = [&](const PlanInputs& in, size_t) {
    return at_random(solved.plan.layers, in.spec.d_ff);
  };
  const Ran random = run(options);
  CHECK(random.plan.device.hot == solved.plan.device.hot);

  CHECK(same_bits(solved.logits, uncounted.logits));
  CHECK(same_bits(random.logits, uncounted.logits));
  if (kStride > 1) return;  // too few tokens for shares
  INFO("solved " << solved.hit_share << ", uncounted " << uncounted.hit_share << ", random "
                 << random.hit_share);
  CHECK(solved.hit_share > uncounted.hit_share + 0.1);
  CHECK(solved.hit_share > random.hit_share + 0.1);
  // The solver's expectation from the counted text roughly holds for another text.
  CHECK(solved.hit_share == Approx(found->caught).margin(0.1));
}

TEST_CASE("a solved placement keeps any budget to the byte, and is carried out") {
  const Skewed skewed;
  LoadOptions options = skewed.options("predicted", DeviceChoice::kCuda);
  size_t whole = 0;
  std::vector<float> expected;
  {
    const auto model = ModelRuntime::load(options);
    whole = model->placed().plan->device.total();
    expected = logits_of(*model, Skewed::text(2, kStride > 1 ? 8 : 20), 7);
  }
  options.placement.activity = skewed.counted();
  options.prefetch = true;
  options.placement.assumptions.cache_margin = 0.5;  // takes a cache wherever one may be of use
  bool found = false, has_cache = false;
  options.placement.found = [&found](const PlacementSolution&) { found = true; };
  for (int eighth = 5; eighth <= 8; eighth += kStride > 1 ? 3 : 1) {
    INFO(eighth);
    options.vram_budget_bytes = whole * static_cast<size_t>(eighth) / 8;
    const auto model = ModelRuntime::load(options);
    CHECK(model->placed().plan->device.total() <= *options.vram_budget_bytes);
    for (const LayerPlacement& layer : model->placed().plan->layers)
      has_cache = has_cache || layer.n_cache > 0;
    CHECK(same_bits(logits_of(*model, Skewed::text(2, kStride > 1 ? 8 : 20), 7), expected));
    if (eighth == 8) CHECK(model->placed().plan->whole());
  }
  CHECK(found);
  if (kStride == 1) CHECK(has_cache);
}

TEST_CASE("without a GPU in the profile, a typical one is assumed") {
  const Skewed skewed;
  LoadOptions options = skewed.options("exact", DeviceChoice::kCuda);
  options.placement.machine = desktop(false);
  CHECK(ModelRuntime::load(options)->placed().plan->whole());
}

TEST_CASE("the GPU gets what fits of a model that the CPU alone would run faster") {
  const Skewed skewed;
  LoadOptions options = skewed.options("exact", DeviceChoice::kCuda);
  options.placement.machine = desktop();
  const auto whole = ModelRuntime::load(options);
  REQUIRE(whole->placed().plan->whole());
  options.vram_budget_bytes = whole->placed().plan->device.total() - whole->placed().plan->device.hot / 2;
  const auto part = ModelRuntime::load(options);
  const Plan& plan = *part->placed().plan;
  CHECK(plan.shares);
  CHECK(plan.device.total() <= *options.vram_budget_bytes);
  CHECK(plan.device.total() > *options.vram_budget_bytes * 49 / 50);
}

/// Kernels that one decoded token starts.
double kernels_of_a_token(ModelRuntime& model) {
  constexpr int kTokens = kStride > 1 ? 2 : 8;
  logits_of(model, Skewed::text(2, kTokens), 1);
  cudaemu::reset_stats();
  logits_of(model, Skewed::text(2, kTokens), 1);
  return static_cast<double>(cudaemu::stats().launches) / kTokens;
}

double all_of(const KernelCounts& counts) { return std::reduce(counts.begin(), counts.end()); }

TEST_CASE("a layer launches as many kernels as placement counts") {
  const Skewed skewed;
  const std::string mode = GENERATE(from_range(some_of({"exact", "predicted", "dense"})));
  INFO(mode);
  LoadOptions options = skewed.options(mode, DeviceChoice::kCuda);
  const auto whole = ModelRuntime::load(options);
  options.choose_placement = placed(Share::kThird, mode == "exact");
  const auto shared = ModelRuntime::load(options);
  REQUIRE(shared->placed().plan->shares);
  // Includes the output's few kernels, divided by the four layers.
  const double n_layers = whole->facts().spec.n_layers;
  const Sparsity as = whole->placed().sparsity.mode;
  // This model stores the down projection by neuron. So a dense layer selects, lists and sums all neurons,
  // where other models compute one product.
  const double by_neurons = as == Sparsity::kDense ? 4 : 0;
  CHECK(kernels_of_a_token(*whole) / n_layers ==
        Approx(all_of(layer_kernels(as, false)) + by_neurons).margin(2));
  CHECK(kernels_of_a_token(*shared) / n_layers == Approx(all_of(layer_kernels(as, true))).margin(2));
}

}  // namespace
}  // namespace hearth::testing
