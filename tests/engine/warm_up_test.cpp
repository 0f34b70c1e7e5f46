// The steps that a model runs before it is served.
#include "engine/warm_up.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;

namespace {

/// Records the steps, and checks that each is within the model's limits.
struct Noted final : ForwardModel {
  explicit Noted(StepLimits limits) : limits_(limits) {}
  StepLimits limits() const override { return limits_; }
  void bind_thread() override { bound = true; }
  StepOutput forward(const Batch& batch) override {
    CHECK(bound);
    CHECK(batch.n_tokens() <= limits_.max_tokens);
    for (const int32_t token : batch.tokens) CHECK((token >= 0 && token < limits_.n_vocab));
    for (const int32_t position : batch.positions) {
      const auto block = static_cast<size_t>(position / limits_.block_tokens);
      REQUIRE(block < static_cast<size_t>(batch.max_blocks));
      CHECK(batch.block_tables[block] >= 0);
      CHECK(batch.block_tables[block] < limits_.n_blocks);
    }
    n_tables = batch.block_tables.size() / static_cast<size_t>(batch.max_blocks);
    steps.push_back(batch.n_tokens());
    last_positions.push_back(batch.positions.back());
    counted.push_back(counts);
    n_logits += batch.logit_rows.size();
    n_hidden += batch.hidden_rows.size();
    return {};
  }
  std::span<const float> predict(const Batch& batch, bool first) override {
    CHECK(first);
    REQUIRE(batch.n_tokens() == 1);
    CHECK(batch.positions[0] / limits_.block_tokens < batch.max_blocks);
    predicted.push_back(batch.positions[0]);
    return {};
  }

  StepLimits limits_;
  bool bound = false, counts = false;
  size_t n_logits = 0, n_hidden = 0, n_tables = 0;
  std::vector<int> steps, last_positions, predicted;
  std::vector<bool> counted;
};

StepLimits limits_of(int max_tokens, int n_vocab, int n_blocks) {
  return {.max_tokens = max_tokens,
          .max_logit_rows = 1,
          .n_vocab = n_vocab,
          .d_model = 4,
          .block_tokens = 4,
          .n_blocks = n_blocks};
}

}  // namespace

TEST_CASE("the warm-up computes a prompt and a token, within the model's limits") {
  Noted usual(limits_of(64, 1000, 100));
  warm_up(usual, {.n_slots = 3, .context_tokens = 100});
  CHECK(usual.steps == std::vector<int>{8, 1});
  CHECK(usual.last_positions == std::vector<int>{7, 8});
  CHECK(usual.n_logits == 2);
  CHECK(usual.n_tables == 3);
  Noted small(limits_of(2, 3, 1));
  warm_up(small, {.n_slots = 1, .context_tokens = 4});
  CHECK(small.steps == std::vector<int>{2, 1});
  Noted least(limits_of(2, 3, 1));
  warm_up(least, {.n_slots = 1, .context_tokens = 1});
  CHECK(least.steps == std::vector<int>{1});
  StepLimits encodes = limits_of(64, 1000, 100);
  encodes.encodes = true;
  encodes.generates = false;
  Noted encoder(encodes);
  warm_up(encoder, {.n_slots = 1, .context_tokens = 100});
  CHECK(encoder.steps == std::vector<int>{8});
  CHECK(encoder.n_hidden == 1);
  CHECK(encoder.n_logits == 0);
}

TEST_CASE("the warm-up for a GPU runs a long and a short prompt, and two steps of each length class") {
  StepLimits limits = limits_of(64, 1000, 1000);
  limits.long_step = 33;
  Noted model(limits);
  warm_up(model, {.n_slots = 2, .context_tokens = 700});
  CHECK(model.steps == std::vector<int>{33, 8, 1, 1, 1, 1, 1, 1});
  CHECK(model.last_positions == std::vector<int>{32, 7, 255, 255, 511, 511, 699, 699});
  Noted longer(limits);
  warm_up(longer, {.n_slots = 2, .context_tokens = 4000});
  CHECK(longer.last_positions == std::vector<int>{32, 7, 255, 255, 511, 511, 1023, 1023});
  Noted tight(limits);
  warm_up(tight, {.n_slots = 2, .context_tokens = 20});
  CHECK(tight.last_positions == std::vector<int>{18, 7, 19, 19});
  CHECK(tight.predicted.empty());
  limits.predicts = true;
  Noted predicting(limits);
  warm_up(predicting, {.n_slots = 2, .context_tokens = 700});
  CHECK(predicting.steps == model.steps);
  CHECK(predicting.predicted == std::vector<int>{255, 255, 511, 511, 699, 699});
}

TEST_CASE("the warm-up includes steps that count neurons, if they will be counted") {
  StepLimits limits = limits_of(64, 1000, 1000);
  limits.long_step = 40;
  Noted model(limits);
  warm_up(model, {.n_slots = 1, .context_tokens = 100, .count = [&](bool counts) { model.counts = counts; }});
  CHECK(model.last_positions == std::vector<int>{39, 7, 99, 99, 99, 99});
  CHECK(model.counted == std::vector<bool>{false, false, false, false, true, true});
  CHECK_FALSE(model.counts);
}
