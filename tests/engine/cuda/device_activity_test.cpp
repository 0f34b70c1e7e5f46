// Counting single neurons in layers that run on the device: the counts equal the CPU's, wherever the neurons
// are computed.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "engine/model_runtime.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace hearth::testing {
namespace {

constexpr int kCountedTokens = 24;

struct CountedWay {
  Share share;
  bool all_gates = false;
  bool cpu_share = true;  // false: cold neurons are streamed to the device
};

LoadOptions options_of(const std::string& name, const std::string& mode, const CountedWay& way,
                       int n_slots = 1) {
  LoadOptions options = device_options("arch/" + name + ".gguf", mode);
  options.n_slots = n_slots;
  options.cpu_share = way.cpu_share;
  options.choose_placement = placed(way.share, way.all_gates);
  return options;
}

std::vector<int32_t> counted_text(int n_vocab) { return spread_tokens(kCountedTokens, n_vocab); }

ActivityCounts counts_of(ModelRuntime& model, int chunk, const CountOptions& options = {}) {
  model.observation().count_activity(options);
  logits_of(model, counted_text(model.facts().spec.n_vocab), chunk);
  return model.observation().take_activity();
}

/// In each step every slot gets a token of its prompt, all with logits.
ActivityCounts batched_counts(ModelRuntime& model, int n_slots, int n_steps) {
  model.observation().count_activity({.decode_only = true});
  const StepLimits limits = model.limits();
  const int max_blocks = limits.n_blocks / n_slots;
  std::vector<int32_t> tables(static_cast<size_t>(n_slots * max_blocks));
  std::iota(tables.begin(), tables.end(), 0);
  for (int i = 0; i < n_steps; ++i) {
    Batch batch;
    for (int slot = 0; slot < n_slots; ++slot) {
      batch.logit_rows.push_back(slot);
      batch.tokens.push_back((7 + 31 * i + 5 * slot) % limits.n_vocab);
      batch.positions.push_back(i);
      batch.slots.push_back(slot);
    }
    batch.block_tables = tables;
    batch.max_blocks = max_blocks;
    model.forward(batch);
  }
  return model.observation().take_activity();
}

double sum(const std::vector<uint64_t>& all) {
  double sum = 0;
  for (const uint64_t one : all) sum += static_cast<double>(one);
  return sum;
}

void check_ways(const std::string& name, const std::string& mode) {
  // The CPU computes every neuron, but with the device's integer sums, which a run on the CPU alone does not
  // use.
  const ActivityCounts expected = counts_of(*ModelRuntime::load(options_of(name, mode, {Share::kNone})), 1);
  CHECK(expected.n_tokens == kCountedTokens);
  CHECK(expected.n_pairs == kCountedTokens - 1);
  CHECK(sum(expected.value_sums) > 0);
  for (const CountedWay& way :
       {CountedWay{Share::kThird, true}, CountedWay{Share::kRandom}, CountedWay{Share::kThird, true, false},
        CountedWay{Share::kRandom, false, false}, CountedWay{Share::kNone, false, false},
        CountedWay{Share::kAll}}) {
    INFO(name << " " << mode << " share " << static_cast<int>(way.share) << " all gates " << way.all_gates
              << " by the CPU too " << way.cpu_share);
    // uses the file's layout, so there are no single neurons
    if (way.share == Share::kAll && mode == "dense") continue;
    const auto model = ModelRuntime::load(options_of(name, mode, way));
    for (const int chunk : {1, 20}) {
      INFO("chunk " << chunk);
      CHECK(counts_of(*model, chunk) == expected);
    }
  }
}

/// Counts may differ as much as two orders of sums do.
void check_near(const ActivityCounts& a, const ActivityCounts& b) {
  REQUIRE(a.active.size() == b.active.size());
  CHECK(a.n_tokens == b.n_tokens);
  CHECK(a.n_pairs == b.n_pairs);
  double difference = 0, active = 0;
  for (size_t i = 0; i < a.active.size(); ++i) {
    difference += std::abs(static_cast<double>(a.active[i]) - b.active[i]);
    active += b.active[i];
  }
  CHECK(difference <= 0.01 * active);
  CHECK(std::abs(sum(a.value_sums) - sum(b.value_sums)) < 0.01 * sum(b.value_sums));
}

}  // namespace

TEST_CASE("neuron counts do not depend on where neurons are computed: exact") {
  check_ways(GENERATE("relu-llama", "bamboo.powerinfer", "opt.powerinfer"), "exact");
}

TEST_CASE("neuron counts do not depend on where neurons are computed: predicted") {
  check_ways(GENERATE("relu-llama.powerinfer", "falcon-7b.powerinfer"), "predicted");
}

TEST_CASE("neuron counts do not depend on where neurons are computed: dense") {
  check_ways("relu-llama", "dense");
}

TEST_CASE("counts taken on the device equal those of the CPU alone") {
  const std::string name = GENERATE("relu-llama", "opt.powerinfer");
  LoadOptions options = options_of(name, "exact", {Share::kRandom});
  const auto on_device = ModelRuntime::load(options);
  options.device = DeviceChoice::kCpu;
  options.choose_placement = nullptr;
  const auto on_cpu = ModelRuntime::load(options);
  check_near(counts_of(*on_device, 1), counts_of(*on_cpu, 1));
}

TEST_CASE("counts of a mixture's experts do not depend on where the experts are") {
  LoadOptions options = device_options("arch/qwen3moe.gguf", "dense");
  const auto all = ModelRuntime::load(options);
  const DeviceBytes bytes = all->placed().plan->device;
  options.device = DeviceChoice::kCpu;
  const ActivityCounts expected = counts_of(*ModelRuntime::load(options), 1);
  CHECK(expected.of_experts());
  CHECK(sum(expected.value_sums) > 0);
  options.device = DeviceChoice::kCuda;
  // With cpu_share false, missing experts are copied to the device in long steps.
  for (const auto& [left_out, cpu_share] : {std::pair(size_t{0}, true), std::pair(bytes.experts / 2, true),
                                            std::pair(bytes.experts / 2, false)}) {
    INFO(left_out << " bytes of experts left out, by the CPU too " << cpu_share);
    options.vram_budget_bytes = bytes.total() - left_out;
    options.cpu_share = cpu_share;
    const auto model = ModelRuntime::load(options);
    for (const int chunk : {1, 20}) {
      INFO("chunk " << chunk);
      CHECK(counts_of(*model, chunk) == expected);
    }
  }
}

TEST_CASE("steps of several sequences are counted too, and a prompt's steps can be left out") {
  constexpr int kSlots = 3, kSteps = 10;
  const auto by_cpu = ModelRuntime::load(options_of("bamboo.powerinfer", "exact", {Share::kNone}, kSlots));
  const ActivityCounts expected = batched_counts(*by_cpu, kSlots, kSteps);
  CHECK(expected.n_tokens == kSlots * kSteps);
  CHECK(expected.n_pairs == kSlots * (kSteps - 1));
  for (const Share share : {Share::kRandom, Share::kAll}) {
    const auto model = ModelRuntime::load(options_of("bamboo.powerinfer", "exact", {share}, kSlots));
    CHECK(batched_counts(*model, kSlots, kSteps) == expected);
    // A step of a prompt has more tokens than there are slots.
    CHECK(counts_of(*model, 20, {.decode_only = true}).n_tokens == 0);
  }
}

TEST_CASE("counting a sample of the steps changes no answer") {
  for (const Share share : {Share::kRandom, Share::kAll}) {
    const auto model = ModelRuntime::load(options_of("bamboo.powerinfer", "predicted", {share}));
    const std::vector<int32_t> tokens = counted_text(model->facts().spec.n_vocab);
    const std::vector<float> expected = logits_of(*model, tokens, 1);
    model->observation().count_activity({.decode_only = true, .one_of = 3});
    for (int i = 0; i < 2; ++i) REQUIRE(logits_of(*model, tokens, 1) == expected);
    const ActivityCounts counts = model->observation().take_activity();
    CHECK(counts.n_tokens == 2 * kCountedTokens / 3);
    CHECK(counts.n_pairs == kCountedTokens / 3);
    model->observation().pause_activity(true);
    REQUIRE(logits_of(*model, tokens, 1) == expected);
    CHECK(model->observation().take_activity().empty());
  }
}

TEST_CASE("counting goes on when a model is placed again on the device") {
  LoadOptions options = options_of("relu-llama", "exact", {Share::kThird, true});
  const auto model = ModelRuntime::load(options);
  const std::vector<int32_t> tokens = counted_text(model->facts().spec.n_vocab);
  model->observation().count_activity();
  logits_of(*model, tokens, 1);
  options.choose_placement = placed(Share::kRandom, false);
  model->place_again(options);
  logits_of(*model, tokens, 1);
  ActivityCounts twice = counts_of(*ModelRuntime::load(options), 1);
  twice.add(twice);
  CHECK(model->observation().take_activity() == twice);
}

TEST_CASE("a dense run with the file's own down projections cannot be counted on the device either") {
  const auto model = ModelRuntime::load(options_of("relu-llama", "dense", {Share::kAll}));
  CHECK_THAT(model->observation().why_not_counted(), ContainsSubstring("computes all neurons"));
  CHECK_THROWS_AS(model->observation().count_activity(), std::invalid_argument);
  logits_of(*model, counted_text(model->facts().spec.n_vocab), 1);
}

TEST_CASE("the live view shows the same neurons wherever they are computed, and where that is") {
  const auto shown = [](const CountedWay& way) {
    const auto model = ModelRuntime::load(options_of("relu-llama", "exact", way));
    LiveActivity& live = model->observation().show_live();
    const LiveActivity::Watch watch(live);
    logits_of(*model, {7}, 1);
    std::pair<LivePlacement, LiveStep> all = {live.placement(), {}};
    CHECK(all.first.why_nothing.empty());
    REQUIRE(live.latest(all.second));
    const std::span<const LayerPlacement> layers = model->placed().plan->layers;
    int64_t n_hot = 0;
    for (const LayerPlacement& layer : layers) n_hot += static_cast<int64_t>(layer.hot.size());
    CHECK(std::ranges::count(all.first.hot, LiveActivity::kFullLevel) == n_hot);  // a bucket has one neuron
    CHECK(all.first.memory.vram == model->placed().plan->device.total());
    return all;
  };
  const LiveStep by_cpu = shown({Share::kNone}).second;
  CHECK(by_cpu.active > 0);
  for (const CountedWay& way : {CountedWay{Share::kThird, true}, CountedWay{Share::kRandom},
                                CountedWay{Share::kThird, true, false}, CountedWay{Share::kAll}}) {
    INFO("share " << static_cast<int>(way.share));
    CHECK(shown(way).second.levels == by_cpu.levels);
  }
}

TEST_CASE("neurons can be counted and shown live in the same step") {
  const CountedWay way{Share::kRandom};
  const ActivityCounts alone = counts_of(*ModelRuntime::load(options_of("relu-llama", "exact", way)), 1);
  const auto model = ModelRuntime::load(options_of("relu-llama", "exact", way));
  LiveActivity& live = model->observation().show_live();
  const LiveActivity::Watch watch(live);
  CHECK(counts_of(*model, 1) == alone);
  LiveStep seen;
  CHECK(live.latest(seen));
}

}  // namespace hearth::testing
