// What is seen of held-out text: the same neurons as counting sees, and what predictors propose.
#include "profiler/report/held_out.h"

#include <filesystem>
#include <limits>
#include <set>

#include "profiler/activity/count.h"
#include "profiler/activity/prompt_set.h"
#include "profiler/plan/planned_model.h"
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

TEST_CASE("held out: the same neurons are active as where they are counted") {
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

  // And what was counted is passed over.
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
    // These predictors are far better than chance, and for their own input better than for one before it.
    CHECK(counts.recall() > 1.5 * counts.proposed());
    if (l > 0) CHECK(counts.recall() > usual.found.ahead[l].recall());
  }
}

TEST_CASE("held out: prompts that are built in for it are never counted") {
  const std::vector<std::string> counted = built_in_prompts(), kept = held_out_prompts();
  CHECK(kept.size() >= 20);
  for (const std::string& prompt : kept) {
    INFO(prompt);
    CHECK(std::find(counted.begin(), counted.end(), prompt) == counted.end());
    CHECK(find_no_text(prompt) == std::string::npos);
  }
}

}  // namespace
}  // namespace hearth::testing
