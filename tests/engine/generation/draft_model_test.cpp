// The draft model without an engine: the tokens that it keeps, how it reads texts, and where its drafts end.
#include "engine/generation/draft_model.h"

#include <cmath>
#include <stdexcept>

#include "engine/serving/sequence.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;

namespace {

constexpr int kDraftContext = 40;

Sequence decoding(std::vector<int32_t> tokens, int n_prompt) {
  Sequence sequence;
  sequence.request = greedy({}, 30);
  sequence.tokens = std::move(tokens);
  sequence.n_prompt = n_prompt;
  return sequence;
}

std::vector<int32_t> draft_one(DraftModel& model, const Sequence& sequence, int slot, int n) {
  std::vector<int32_t> draft = {1, 2, 3};  // is replaced
  const DraftJob job{.sequence = &sequence, .slot = slot, .n_wanted = n, .draft = &draft};
  model.draft(std::span(&job, 1));
  return draft;
}

}  // namespace

TEST_CASE("draft model: drafts what the model would say, and keeps what it has read") {
  ScriptedModel scripted({.before_step = {}});
  DraftModel model(scripted, 2, 97, kDraftContext);
  const std::vector<int32_t> prompt = some_tokens(20, 1);
  Sequence sequence = decoding(prompt, 20);
  CHECK(model.n_missing(sequence, 0) == 20);
  model.read(sequence, 0, 15);
  CHECK(model.n_missing(sequence, 0) == 5);
  CHECK(model.n_missing(sequence, 1) == 20);  // slots are separate
  const std::vector<int32_t> right = continuation(prompt, 6);
  CHECK(draft_one(model, sequence, 0, 4) == std::vector<int32_t>(right.begin(), right.begin() + 4));
  CHECK(model.n_missing(sequence, 0) == 1);

  // Two of the four drafted tokens are right, then the main model chooses another one. So the draft model
  // discards the third drafted token and those after it.
  sequence.tokens.insert(sequence.tokens.end(), {right[0], right[1], (right[2] + 1) % 97});
  CHECK(model.n_missing(sequence, 0) == 1);
  CHECK(draft_one(model, sequence, 0, 3) == continuation(sequence.tokens, 3));
  // Another text with the same beginning, like the next turn of a conversation.
  Sequence next = decoding(prompt, 20);
  next.tokens.push_back(5);
  next.n_prompt = 21;
  CHECK(model.n_missing(next, 0) == 1);
  CHECK(draft_one(model, next, 0, 3) == continuation(next.tokens, 3));
  CHECK(model.n_missing(decoding(some_tokens(9, 8), 9), 0) == 9);
}

TEST_CASE(
    "draft model: with a window it continues where its window is complete, else it reads the text again") {
  ScriptedModel::Options options{.before_step = {}};
  options.limits.max_tokens = 16;
  options.limits.window = {.n_positions = 6, .n_blocks = 2 * 7};  // 7 blocks of 4 for each slot
  ScriptedModel scripted(options);
  DraftModel model(scripted, 2, 97, 120);
  CHECK(model.most_read() == 16);
  const std::vector<int32_t> prompt = some_tokens(80, 1);
  Sequence sequence = decoding(prompt, 80);
  const auto read_all = [&](const Sequence& text) {
    while (*model.n_missing(text, 1) > model.most_missing())
      model.read(text, 1, std::min(model.most_read(), *model.n_missing(text, 1) - 1));
  };
  read_all(sequence);
  CHECK(draft_one(model, sequence, 1, 9) == continuation(prompt, 9));
  // No token of the draft was right.
  sequence.tokens.push_back((continuation(prompt, 1)[0] + 1) % 97);
  CHECK(model.n_missing(sequence, 1) == 1);
  CHECK(draft_one(model, sequence, 1, 9) == continuation(sequence.tokens, 9));
  // 89 positions were written, of which the 7 blocks from position 64 on remain: a text that shares 70 tokens
  // can continue, one that shares 68 cannot.
  const auto shares = [&](int n) {
    Sequence other = decoding({prompt.begin(), prompt.begin() + n}, n);
    for (const int32_t token : some_tokens(5, 2)) other.tokens.push_back((token + 1) % 97);
    return other;
  };
  CHECK(model.n_missing(shares(68), 1) == 73);
  CHECK(model.n_missing(shares(72), 1) == 5);
  const Sequence near = shares(72);
  CHECK(draft_one(model, near, 1, 4) == continuation(near.tokens, 4));
  const Sequence far = shares(30);
  CHECK(model.n_missing(far, 1) == 35);
  read_all(far);
  CHECK(draft_one(model, far, 1, 4) == continuation(far.tokens, 4));
  // The first token's block is gone too.
  const Sequence other = shares(1);
  CHECK(model.n_missing(other, 1) == 6);
  CHECK(draft_one(model, other, 1, 4) == continuation(other.tokens, 4));
}

TEST_CASE("draft model: sequences are drafted for together, each as long as it wants") {
  ScriptedModel scripted({.before_step = {}});
  DraftModel model(scripted, 3, 97, kDraftContext);
  const Sequence a = decoding(some_tokens(6, 1), 6), b = decoding(some_tokens(5, 2), 5);
  std::vector<int32_t> of_a, of_b;
  const std::vector<DraftJob> jobs = {{&a, 2, 5, &of_a}, {&b, 0, 2, &of_b}};
  const std::span<const DraftPassTime> steps = model.draft(jobs);
  CHECK(of_a == continuation(a.tokens, 5));
  CHECK(of_b == continuation(b.tokens, 2));
  std::vector<int> sizes;
  for (const DraftPassTime& step : steps) sizes.push_back(step.n_tokens);
  CHECK(sizes == std::vector<int>{11, 2, 1, 1, 1});
}

TEST_CASE("draft model: it drafts nothing for texts that are too long or have unknown tokens") {
  ScriptedModel::Options options{.before_step = {}};
  options.limits.n_vocab = 50;
  ScriptedModel scripted(options);
  DraftModel model(scripted, 2, 97, kDraftContext);
  CHECK_FALSE(model.n_missing(decoding(std::vector<int32_t>(41, 3), 9), 0));
  CHECK_FALSE(model.n_missing(decoding({1, 2, 60, 3}, 4), 0));
  const Sequence full = decoding(std::vector<int32_t>(38, 3), 9);
  model.read(full, 0, 35);
  CHECK(draft_one(model, full, 0, 9).size() == 3);  // the last token is drafted, but not computed any more
  CHECK_THROWS_AS(DraftModel(scripted, 2, 97, 4000), std::invalid_argument);
}

TEST_CASE("draft model: a draft ends where the text may end, and where logits are not numbers") {
  ScriptedModel scripted({.script = ScriptedModel::answering({7, 8, 9}, 96), .before_step = {}});
  DraftModel model(scripted, 1, 97, kDraftContext);
  Sequence sequence = decoding({1, 2}, 2);
  sequence.request.end_tokens = {96};
  CHECK(draft_one(model, sequence, 0, 9) == std::vector<int32_t>{7, 8, 9});
  ScriptedModel broken({.script = [](std::span<const int32_t>, std::span<float> logits) { logits[3] = NAN; },
                        .before_step = {}});
  DraftModel nothing(broken, 1, 97, kDraftContext);
  CHECK(draft_one(nothing, sequence, 0, 9).empty());
}
