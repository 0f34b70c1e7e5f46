// Thresholds that divide one price among layers, and texts split up for training.
#include "profiler/predictors/threshold_choice.h"

#include <set>
#include <stdexcept>

#include "engine/model/model_file.h"
#include "profiler/predictors/train_predictors.h"
#include "profiler/predictors/training_text.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// Logits from -6 to 6; those of active neurons tend to be higher by `skill`.
LogitCurve curve_with(float skill) {
  LogitCurve curve;
  for (int i = 0; i < 96; ++i) {
    const float logit = static_cast<float>(i - 48) / 8;
    curve.add(logit, 0);
    curve.add(logit, 0);
    curve.add(logit / 2 + skill, 1.0f + static_cast<float>(i) / 96);
  }
  return curve;
}

double total_cost(const std::vector<LogitCurve>& curves, const std::vector<double>& costs,
                  const std::vector<int>& steps, double price) {
  double sum = 0;
  for (size_t l = 0; l < curves.size(); ++l) {
    const PredictorShares shares = curves[l].at(steps[l]);
    sum += shares.proposed + price * costs[l] * shares.missed;
  }
  return sum;
}

struct Text {
  Text() : file(written()) {}
  ModelFile written() {
    TinyModel().write(folder / "m.gguf");
    return ModelFile::open(folder / "m.gguf");
  }
  TempFolder folder;
  ModelFile file;
  std::unique_ptr<const Tokenizer> tokenizer = Tokenizer::from_model(file);
};

}  // namespace

TEST_CASE("cheapest steps: no other steps cost less, and a higher price proposes more neurons") {
  const std::vector<LogitCurve> curves = {curve_with(3), curve_with(1)};
  const std::vector<double> costs = {1.0, 3.0};
  const int top = LogitCurve::kSteps - 1;
  double proposed_before = 0;
  for (const double price : {0.01, 0.1, 1.0, 10.0}) {
    const std::vector<int> steps = cheapest_steps(curves, costs, std::vector<int>{top, top}, price);
    const double cost = total_cost(curves, costs, steps, price);
    for (int a = 0; a <= top; a += 7) {
      for (int b = 0; b <= top; b += 7) CHECK(cost <= total_cost(curves, costs, {a, b}, price) + 1e-12);
    }
    const double proposed = curves[0].at(steps[0]).proposed + curves[1].at(steps[1]).proposed;
    CHECK(proposed >= proposed_before);
    proposed_before = proposed;
  }
  CHECK(proposed_before > 1);
  // The limit is not exceeded.
  CHECK(cheapest_steps(curves, costs, std::vector<int>{100, top}, 0.01)[0] == 100);
}

TEST_CASE("ranks: they follow activity and stay within the budget") {
  const std::vector<double> active = {0.3, 0.1, 0.02};
  const std::vector<RankRange> ranges = rank_ranges(active, 1024, 4096, 512.0 * 5120);
  int sum = 0;
  for (const RankRange& range : ranges) {
    CHECK(range.first >= 32);
    CHECK(range.first <= range.most);
    CHECK(range.first % 32 == 0);
    sum += range.most;
  }
  CHECK(sum <= 512);
  CHECK(ranges[0].most > ranges[1].most);
  CHECK(ranges[0].first > ranges[2].first);
  CHECK(rank_ranges(std::vector<double>{0.5}, 64, 48, 1e9)[0].most == 48);  // never wider than the FFN
  CHECK(rank_ranges(std::vector<double>{0.0}, 64, 64, 1.0)[0].most == 32);  // never empty
}

TEST_CASE("training text: parts are disjoint, whole windows, and at most as many as requested") {
  const Text model;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i % 23);
  const std::vector<NamedText> texts = {{"a.txt", text}, {"b.txt", text.substr(0, 2000)}};
  const TextCut cut{.n_context = 16, .n_train = 800, .n_tune = 160};
  const TrainingText parts = cut_texts(*model.tokenizer, texts, {}, cut);
  CHECK(parts.train.size() == 800);
  CHECK(parts.tune.size() == 160);
  CHECK(parts.held_out.size() == 160);
  CHECK(parts.bos == model.tokenizer->bos());
  for (const std::vector<int32_t>* part : {&parts.train, &parts.tune, &parts.held_out}) {
    for (size_t at = 0; at < part->size(); at += 16) CHECK((*part)[at] == parts.bos);
  }
  const std::vector<NamedText> other = {{"c.txt", std::string(500, 'x')}};
  const TrainingText own = cut_texts(*model.tokenizer, texts, other, cut);
  const std::set<int32_t> kinds(own.held_out.begin(), own.held_out.end());
  CHECK(kinds.size() <= 3);  // the letter and the begin token, possibly a space
}

TEST_CASE("training text: too little text is refused with advice") {
  const Text model;
  const auto refusal = [&](const std::string& text, const std::string& held_out) {
    const std::vector<NamedText> texts = {{"t.txt", text}};
    std::vector<NamedText> others;
    if (!held_out.empty()) others.push_back({"h.txt", held_out});
    try {
      cut_texts(*model.tokenizer, texts, others, {.n_context = 16});
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal("short", "").find("t.txt: the text has") == 0);
  CHECK(refusal(std::string(5000, 'a'), "x").find("h.txt") == 0);
  CHECK(refusal(std::string(5000, 'a'), "").empty());
}

}  // namespace hearth::test
