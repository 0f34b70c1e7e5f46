// Tests the live view of activity: that nothing is sampled unless somebody watches, the buckets, levels and
// placements that it shows, and a real model.
#include "engine/activity/live_activity.h"

#include <algorithm>
#include <numeric>

#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/manual_clock.h"

namespace hearth::test {
namespace {

using testing::logits_of;

constexpr std::chrono::milliseconds kEveryStep{0};

/// A step that decodes one token for each of n sequences.
Batch decode_step(int n, int position = 1) {
  Batch batch;
  for (int t = 0; t < n; ++t) {
    batch.tokens.push_back(0);
    batch.slots.push_back(t);
    batch.positions.push_back(position);
    batch.logit_rows.push_back(t);
  }
  return batch;
}

/// Runs a step; the bits are each token's active neurons in layer 0. Returns whether it was sampled.
bool run_step(LiveActivity& live, const Batch& batch, const std::vector<uint64_t>& active) {
  const LiveActivity::StepScope step(&live, batch);
  if (live.found() == nullptr) return false;
  std::ranges::copy(active, live.found()->bits);
  live.add(0, *live.found());
  return true;
}

TEST_CASE("steps are sampled only while somebody watches, and never when they read a prompt") {
  LiveActivity live({.n_layers = 1, .n_units = 4, .max_tokens = 2}, kEveryStep);
  CHECK_FALSE(run_step(live, decode_step(1), {1}));
  LiveStep seen;
  CHECK_FALSE(live.latest(seen));
  {
    const LiveActivity::Watch watch(live);
    CHECK(run_step(live, decode_step(1), {1}));
    CHECK_FALSE(live.samples_step());
    Batch prompt = decode_step(2);
    prompt.logit_rows.pop_back();
    CHECK_FALSE(run_step(live, prompt, {1, 1}));
    CHECK_FALSE(run_step(live, decode_step(3), {1, 1, 1}));  // more tokens than there is memory for
  }
  CHECK_FALSE(run_step(live, decode_step(1), {1}));
  CHECK(live.latest(seen));
  CHECK(seen.number == 1);
  CHECK_FALSE(live.latest(seen));
}

TEST_CASE("one of several consecutive steps is sampled per interval") {
  ManualClock clock;
  LiveActivity live({.n_layers = 1, .n_units = 4, .max_tokens = 1}, std::chrono::hours(1), clock.reader());
  const LiveActivity::Watch watch(live);
  CHECK(run_step(live, decode_step(1), {1}));
  CHECK_FALSE(run_step(live, decode_step(1), {1}));
  clock.advance(std::chrono::minutes(59));
  CHECK_FALSE(run_step(live, decode_step(1), {1}));
  clock.advance(std::chrono::minutes(1));
  CHECK(run_step(live, decode_step(1), {1}));
  CHECK_FALSE(run_step(live, decode_step(1), {1}));
}

TEST_CASE("a level says which share of a bucket fired, and is above 0 if any neuron did") {
  LiveActivity live({.n_layers = 2, .n_units = 512, .max_tokens = 2}, kEveryStep);
  const LiveActivity::Watch watch(live);
  // Buckets of two neurons. Token 0 has neurons 0, 1 and 2 active, token 1 neuron 0.
  std::vector<uint64_t> bits(2 * 8);
  bits[0] = 0b111;
  bits[8] = 0b1;
  CHECK(run_step(live, decode_step(2), bits));
  LiveStep seen;
  REQUIRE(live.latest(seen));
  REQUIRE(seen.levels.size() == 2 * 256);
  CHECK(seen.n_tokens == 2);
  CHECK(seen.levels[0] == 12);  // 3 of 4
  CHECK(seen.levels[1] == 4);   // 1 of 4, rounded up
  CHECK(std::accumulate(seen.levels.begin() + 2, seen.levels.end(), 0) == 0);
  CHECK(seen.active == Approx(4.0 / 1024));
  // Nothing of it remains in the next step.
  CHECK(run_step(live, decode_step(1), std::vector<uint64_t>(8, ~uint64_t{0})));
  REQUIRE(live.latest(seen));
  CHECK(std::ranges::all_of(seen.levels.begin(), seen.levels.begin() + 256,
                            [](int level) { return level == 15; }));
  CHECK(seen.active == 1);
}

TEST_CASE("experts are shown as neurons are") {
  LiveActivity live({.n_layers = 2, .n_units = 4, .experts = true, .max_tokens = 2}, kEveryStep);
  const LiveActivity::Watch watch(live);
  {
    const Batch batch = decode_step(2);
    const LiveActivity::StepScope step(&live, batch);
    CHECK(live.found() == nullptr);
    REQUIRE(live.samples_step());
    const std::vector<int32_t> chosen = {3, 0, 3, 1};
    live.add(1, ExpertChoice{.n_tokens = 2, .n_used = 2, .experts = chosen.data()});
  }
  LiveStep seen;
  REQUIRE(live.latest(seen));
  CHECK(seen.levels == Levels{0, 0, 0, 0, 8, 8, 0, 15});
}

TEST_CASE("a placement has a number and lists the neurons that a device keeps permanently") {
  LiveActivity live({.n_layers = 2, .n_units = 4, .max_tokens = 1});
  live.attach(
      {.placements = {}, .why_nothing = "no zeros.", .memory = {.vram = 0, .ram = 5, .file = 7, .kv = 2}});
  const LivePlacement first = live.placement();
  CHECK(first.number == live.placement_number());
  CHECK(first.hot.empty());
  CHECK(first.why_nothing == "no zeros.");
  CHECK(first.memory.file == 7);
  const std::vector<LayerPlacement> layers = {{.hot = {0, 2}}, {.on_device = false, .hot = {}}};
  live.detach();
  live.attach({.placements = layers});
  const LivePlacement second = live.placement();
  CHECK(second.number != first.number);
  CHECK(second.hot == Levels{15, 0, 15, 0, 0, 0, 0, 0});
  CHECK_FALSE(second.has_cache);
  CHECK(live.cached().empty());
}

TEST_CASE("a mixture's placement lists the experts that a device holds, not its neurons") {
  LiveActivity live({.n_layers = 2, .n_units = 4, .experts = true, .max_tokens = 1});
  const std::vector<LayerPlacement> layers = {{.hot = {0, 1, 2, 3}, .experts = {1, 3}},
                                              {.hot = {0, 1, 2, 3}}};
  live.attach({.placements = layers});
  CHECK(live.placement().hot == Levels{0, 15, 0, 15, 0, 0, 0, 0});
}

TEST_CASE("a sparse model shows its neurons, and gives the same logits while somebody watches") {
  LoadOptions options;
  options.path = hearth::testing::source_dir() + std::string("/tests/data/relu/relu-5m-q8_0.gguf");
  options.n_threads = 1;
  options.n_slots = 1;
  const std::unique_ptr<ModelRuntime> model = ModelRuntime::load(options);
  const std::vector<int32_t> tokens = {1, 5, 9, 13};
  const std::vector<float> unseen = logits_of(*model, tokens, 1);
  LiveActivity& live = model->observation().show_live();
  const LivePlacement placement = live.placement();
  CHECK(placement.why_nothing.empty());
  CHECK(placement.n_units == model->facts().spec.d_ff);
  CHECK(placement.memory.vram == 0);
  CHECK(placement.memory.file == model->facts().file.total_bytes());
  LiveStep seen;
  CHECK(logits_of(*model, tokens, 1) == unseen);
  CHECK_FALSE(live.latest(seen));
  const LiveActivity::Watch watch(live);
  CHECK(logits_of(*model, tokens, 1) == unseen);
  REQUIRE(live.latest(seen));
  CHECK(seen.active > 0.02);
  CHECK(seen.active < 0.5);
  for (int layer = 0; layer < placement.n_layers; ++layer) {
    const auto begin = seen.levels.begin() + layer * placement.n_buckets;
    CHECK(std::accumulate(begin, begin + placement.n_buckets, 0) > 0);
  }
}

TEST_CASE("a model without zeros says that there is nothing sparse to show") {
  LoadOptions options;
  options.path = hearth::testing::source_dir() + std::string("/tests/data/arch/llama.gguf");
  options.n_threads = 1;
  const std::unique_ptr<ModelRuntime> model = ModelRuntime::load(options);
  CHECK_THAT(model->observation().show_live().placement().why_nothing, ContainsSubstring("no zeros"));
}

TEST_CASE("a mixture shows its experts") {
  LoadOptions options;
  options.path = hearth::testing::source_dir() + std::string("/tests/data/arch/mixtral.gguf");
  options.n_threads = 1;
  const std::unique_ptr<ModelRuntime> model = ModelRuntime::load(options);
  LiveActivity& live = model->observation().show_live();
  CHECK(live.placement().experts);
  CHECK(live.placement().n_units == model->facts().spec.mixture.n_experts);
  const LiveActivity::Watch watch(live);
  logits_of(*model, {1, 5, 9}, 1);
  LiveStep seen;
  REQUIRE(live.latest(seen));
  CHECK(seen.active ==
        Approx(static_cast<double>(model->facts().spec.mixture.n_used) / live.placement().n_units));
}

}  // namespace
}  // namespace hearth::test
