// What a model is given before it is served.
#include "engine/warm_up.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;

namespace {

/// Notes the steps, and checks that each is within the model's limits.
struct Noted final : ForwardModel {
  explicit Noted(StepLimits limits) : limits_(limits) {}
  StepLimits limits() const override { return limits_; }
  void bind_thread() override { bound = true; }
  StepOutput forward(const Batch& batch) override {
    CHECK(bound);
    CHECK(batch.n_tokens() <= limits_.max_tokens);
    for (const int32_t token : batch.tokens) CHECK((token >= 0 && token < limits_.n_vocab));
    for (const int32_t position : batch.positions) {
      CHECK(position == n_positions++);
      CHECK(batch.block_tables[static_cast<size_t>(position / limits_.block_tokens)] >= 0);
    }
    steps.push_back(batch.n_tokens());
    n_logits += batch.logit_rows.size();
    n_hidden += batch.hidden_rows.size();
    return {};
  }

  StepLimits limits_;
  bool bound = false;
  int n_positions = 0;
  size_t n_logits = 0, n_hidden = 0;
  std::vector<int> steps;
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

TEST_CASE("before it is served a model computes a prompt and a token, within its limits") {
  Noted usual(limits_of(64, 1000, 100));
  warm_up(usual);
  CHECK(usual.steps == std::vector<int>{8, 1});
  CHECK(usual.n_logits == 2);
  Noted small(limits_of(2, 3, 1));
  warm_up(small);
  CHECK(small.steps == std::vector<int>{2, 1});
  StepLimits encodes = limits_of(64, 1000, 100);
  encodes.encodes = true;
  Noted encoder(encodes);
  warm_up(encoder);
  CHECK(encoder.steps == std::vector<int>{8});
  CHECK(encoder.n_hidden == 1);
  CHECK(encoder.n_logits == 0);
}
