// Tests the activity found on held-out text, and the hit rates that follow from it.
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "profiler/activity/count.h"
#include "profiler/activity/text_feed.h"
#include "profiler/plan/planned_model.h"
#include "profiler/report/held_out.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::testing {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTexts = {"Once upon a time there was a bear.", "The ferry was late, as ever.",
                                         "One two three four five six."};

fs::path model_path() { return fs::path(source_dir()) / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf"; }

std::unique_ptr<ModelRuntime> load(const std::string& mode) {
  LoadOptions options;
  options.path = model_path();
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 256;
  options.sparsity.mode = mode;
  return ModelRuntime::load(options);
}

struct Looked {
  explicit Looked(float threshold, const std::set<Sha256>& counted = {}, uint64_t n_tokens = 1000) {
    const PlannedModel model = model_of_file(model_path(), "");
    TextFeed texts(kTexts, {});
    found = run_held_out(*load("dense"), texts,
                         {.predictors = model.weights,
                          .threshold = threshold,
                          .counted = counted,
                          .n_tokens = n_tokens,
                          .n_threads = 2,
                          .progress = [this](double fraction) { last = fraction; }});
  }
  HeldOut found;
  double last = 0;
};

TEST_CASE("held out: the same neurons are active as in a count") {
  const Looked looked(0);
  const test::TempFolder folder;
  const auto model = load("exact");
  TextFeed texts(kTexts, {});
  const CountResult counted =
      count_texts(*model, texts, {.file = folder / "a.activity", .n_generate = 0}, {});
  REQUIRE(looked.found.n_tokens == counted.activity.n_tokens());
  CHECK(looked.found.n_texts == 3);
  CHECK(looked.found.active.counts == counted.activity.profile().counts);
  CHECK(looked.last == 1);

  // Texts that were counted are skipped.
  CHECK(Looked(0, counted.activity.texts).found.n_tokens == 0);
  CHECK(Looked(0, {}, 7).found.n_tokens == 7);
}

TEST_CASE("held out: predictors are judged at their threshold, for their layer and ahead") {
  constexpr float kAll = std::numeric_limits<float>::max();
  const Looked none(kAll), all(-kAll), usual(0);
  REQUIRE(usual.found.predictors.size() == 4);
  REQUIRE(usual.found.ahead.size() == 4);
  CHECK(usual.found.ahead[0].n_neurons == 0);
  for (size_t l = 0; l < 4; ++l) {
    CHECK(none.found.predictors[l].n_proposed == 0);
    CHECK(all.found.predictors[l].recall() == 1);
    CHECK(all.found.predictors[l].proposed() == 1);
    const ProposalCounts& counts = usual.found.predictors[l];
    double active = 0;
    for (const double n : usual.found.active.counts[l]) active += n;
    CHECK(static_cast<double>(counts.n_active) == active);
    CHECK(counts.n_neurons == static_cast<int64_t>(usual.found.n_tokens) * 1024);
    // These predictors are far better than chance, and better for their own layer's input than for the
    // previous one.
    CHECK(counts.recall() > 1.5 * counts.proposed());
    if (l > 0) CHECK(counts.recall() > usual.found.ahead[l].recall());
  }
}

TEST_CASE("held out: the built-in held-out prompts are never counted") {
  const std::vector<std::string> counted = built_in_prompts(), kept = held_out_prompts();
  CHECK(kept.size() >= 20);
  for (const std::string& prompt : kept) {
    INFO(prompt);
    CHECK(std::find(counted.begin(), counted.end(), prompt) == counted.end());
    CHECK(find_no_text(prompt) == std::string::npos);
  }
}

}  // namespace

namespace {

// Layer 0's neurons are hot; layer 1 has one hot neuron.
const ActivityProfile kCounted{{{9, 8, 7, 6}, {1, 5, 0, 0}}};

TEST_CASE("hit rates: the rate is the chosen share of the needed activity") {
  const std::vector<std::vector<int32_t>> order = {{0, 1, 2, 3}, {1, 0, 2, 3}};
  const ActivityProfile needed{{{4, 0, 2, 2}, {1, 1, 0, 0}}};
  CHECK(hit_rate(needed, order, {0, 0}) == 0);
  CHECK(hit_rate(needed, order, {4, 4}) == 1);
  CHECK(hit_rate(needed, order, {3, 1}) == Approx(0.7));
  CHECK(hit_rate({{{0, 0, 0, 0}, {0, 0, 0, 0}}}, order, {4, 4}) == 0);
}

const LayerMask kBoth = {true, true};

TEST_CASE("hit rates: the most active of some layers are chosen, or equally many of each") {
  using N = std::vector<int64_t>;
  CHECK(most_active(kCounted, 0, kBoth) == N{0, 0});
  CHECK(most_active(kCounted, 4, kBoth) == N{4, 0});
  CHECK(most_active(kCounted, 5, kBoth) == N{4, 1});
  CHECK(most_active(kCounted, 8, kBoth) == N{4, 4});
  CHECK(most_active(kCounted, 99, kBoth) == N{4, 4});
  CHECK(most_active(kCounted, 3, {false, true}) == N{0, 3});
  CHECK(even(5, kBoth) == N{3, 2});
  CHECK(even(4, {false, true}) == N{0, 4});
  CHECK(even(0, kBoth) == N{0, 0});
}

TEST_CASE("hit rates: placements with equal numbers of neurons are compared") {
  const ReportHits hits = compare_placements(kCounted, kCounted, PlannedHot{{3, 1}, kBoth});
  CHECK(hits.planned);
  CHECK(hits.share == 0.5);
  REQUIRE(hits.rates.size() == 4);
  CHECK(hits.rates[0].hit_rate == Approx(29.0 / 36));  // 9 8 7, 5
  CHECK(hits.rates[1].hit_rate == Approx(30.0 / 36));  // 9 8 7 6
  CHECK(hits.rates[2].hit_rate == Approx(23.0 / 36));  // 9 8, 5 1
  CHECK(hits.rates[3].hit_rate == 0.5);
  REQUIRE(hits.by_activity.size() == hits.even.size());
  CHECK(hits.by_activity.front() == 0);
  CHECK(hits.by_activity.back() == 1);

  // A layer on the CPU has no hot neurons, whatever chooses them.
  const ReportHits one = compare_placements(kCounted, kCounted, PlannedHot{{0, 2}, {false, true}});
  CHECK(one.rates[0].hit_rate == Approx(6.0 / 36));
  CHECK(one.rates[1].hit_rate == Approx(6.0 / 36));
  CHECK(one.rates[2].hit_rate == Approx(6.0 / 36));
  CHECK(one.rates[3].hit_rate == Approx(3.0 / 36));

  const ReportHits unplanned = compare_placements(kCounted, kCounted, std::nullopt);
  CHECK_FALSE(unplanned.planned);
  CHECK(unplanned.share == 0.25);
  CHECK(unplanned.rates.size() == 3);
}

TEST_CASE("hit rates: choosing by the needed activity itself is best, and no rate is above one") {
  std::mt19937 random(7);
  std::exponential_distribution<double> activity(1);
  for (int round = 0; round < 20; ++round) {
    ActivityProfile counted;
    for (int layer = 0; layer < 5; ++layer) {
      std::vector<double>& counts = counted.counts.emplace_back();
      for (int j = 0; j < 64; ++j) counts.push_back(activity(random) * (layer + 1));
    }
    PlannedHot planned{{}, LayerMask(5, true)};
    for (int layer = 0; layer < 5; ++layer) planned.n.push_back(1 + static_cast<int64_t>(random() % 64));
    const ReportHits hits = compare_placements(counted, counted, planned);
    for (const ReportHitRate& rate : hits.rates) CHECK(rate.hit_rate <= hits.rates[1].hit_rate + 1e-12);
    for (size_t i = 0; i < hits.even.size(); ++i) {
      CHECK(hits.even[i] <= hits.by_activity[i] + 1e-12);
      CHECK(hits.by_activity[i] <= 1 + 1e-12);
      if (i > 0) CHECK(hits.by_activity[i] >= hits.by_activity[i - 1]);
    }
  }
}

}  // namespace

}  // namespace hearth::testing
