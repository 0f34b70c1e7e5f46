// Calibration of a small random model: its result holds when perplexity.h measures it again.
#include "profiler/calibration/calibrate.h"

#include <algorithm>

#include "engine/model_runtime.h"
#include "profiler/bench/perplexity.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int kContext = 32;

std::unique_ptr<ModelRuntime> load_swiglu() {
  LoadOptions options;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch/llama.gguf";
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = kContext;
  options.prefill_chunk = kContext;
  options.sparsity.mode = "calibrated";
  options.sparsity.calibrating = true;
  return ModelRuntime::load(options);
}

/// Greedy continuations of different beginnings: a text that the model finds likely, so that skipping can do
/// harm.
std::vector<int32_t> likely_text(ModelRuntime& model, int n_windows, int seed) {
  std::vector<int32_t> text;
  SequenceRun run(model);
  for (int w = 0; w < n_windows; ++w) {
    run.clear();
    std::vector<int32_t> window = {(seed + 7 * w) % 256 + 3, (seed + 31 * w * w) % 256 + 3};
    std::span<const float> logits = run.feed(window, 2);
    while (window.size() < kContext) {
      window.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
      logits = run.feed(std::span(window).last(1), 1);
    }
    text.insert(text.end(), window.begin(), window.end());
  }
  return text;
}

struct Texts {
  explicit Texts(ModelRuntime& model)
      : text(likely_text(model, 24, 1)), held_out(likely_text(model, 6, 100)) {}
  CalibrateInputs inputs(double budget) const {
    return {.text = text, .held_out = held_out, .n_context = kContext, .bos = -1, .budget = budget};
  }
  std::vector<int32_t> text, held_out;
};

double perplexity(ModelRuntime& model, const std::vector<int32_t>& tokens) {
  return measure_perplexity(model, tokens, kContext, -1, {}).perplexity;
}

}  // namespace

TEST_CASE("calibrate: its figures equal what perplexity measures, and the budget is kept") {
  const auto model = load_swiglu();
  const Texts texts(*model);
  const std::vector<float> none(static_cast<size_t>(model->facts().spec.n_layers), 0.0f);
  double last_share = 0;
  for (const double budget : {0.001, 0.02, 0.3}) {
    const CalibrateResult result = calibrate(*model, texts.inputs(budget), {});
    INFO(budget);
    CHECK(result.text.calibrated <= result.text.dense * (1 + budget));
    CHECK(perplexity(*model, texts.text) == Approx(result.text.calibrated).epsilon(1e-9));
    CHECK(perplexity(*model, texts.held_out) == Approx(result.held_out.calibrated).epsilon(1e-9));
    const double skipped = 1 - result.activity.active;
    CHECK(skipped >= last_share);
    last_share = skipped;
    double mean = 0;
    for (const double share : result.skipped) mean += share / static_cast<double>(result.skipped.size());
    CHECK(mean == Approx(skipped).epsilon(1e-9));
    model->observation().set_thresholds(none);
    CHECK(perplexity(*model, texts.text) == Approx(result.text.dense).epsilon(1e-9));
    CHECK(perplexity(*model, texts.held_out) == Approx(result.held_out.dense).epsilon(1e-9));
  }
  CHECK(last_share > 0.2);
}

TEST_CASE("calibrate: the same texts give the same thresholds, and progress rises to one") {
  const auto model = load_swiglu();
  const Texts texts(*model);
  std::vector<double> seen;
  const std::vector<float> first = calibrate(*model, texts.inputs(0.02), [&](double share, std::string_view) {
                                     seen.push_back(share);
                                   }).thresholds;
  CHECK(std::ranges::is_sorted(seen));
  CHECK(seen.back() == Approx(1.0).margin(0.02));
  CHECK(calibrate(*model, texts.inputs(0.02), {}).thresholds == first);
}

}  // namespace hearth::test
