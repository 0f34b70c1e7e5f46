// Tests how tokens are chosen from rows of logits, without an engine: drafts, ends, constraints, and the
// events for the client.
#include "engine/generation/token_chooser.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/generation/repetition.h"
#include "tests/support/catch.h"

namespace hearth::token_chooser_test {
namespace {

constexpr int kVocab = 30;
constexpr int32_t kEnd = 29;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sequence sequence_of(std::vector<int32_t> prompt, int max_tokens = 20) {
  Sequence sequence;
  sequence.stream = std::make_shared<TokenStream>(1);
  sequence.n_prompt = static_cast<int>(prompt.size());
  sequence.n_computed = sequence.n_prompt;
  sequence.tokens = std::move(prompt);
  sequence.request.max_tokens = max_tokens;
  sequence.request.sampling.temperature = 0;
  sequence.request.end_tokens = {kEnd};
  return sequence;
}

void draft(Sequence& sequence, std::vector<int32_t> tokens) {
  sequence.drafts.n_sequence_tokens = sequence.tokens.size();
  sequence.drafts.looked_up.tokens = std::move(tokens);
}

/// Rows of logits whose likeliest tokens are these; -1: a row of NaN.
std::vector<float> rows(std::initializer_list<int32_t> tokens) {
  std::vector<float> logits;
  for (const int32_t token : tokens) {
    std::vector<float> row(kVocab, token < 0 ? kNan : 0.0f);
    if (token >= 0) row[static_cast<size_t>(token)] = 5;
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

/// The tokens pushed so far.
std::vector<int32_t> pushed(Sequence& sequence) {
  std::vector<int32_t> tokens;
  while (const std::optional<StreamEvent> event = sequence.stream->pop_for(std::chrono::milliseconds(0)))
    tokens.push_back(std::get<TokenEvent>(event->what).token);
  return tokens;
}

std::vector<int32_t> generated(const Sequence& sequence) {
  return {sequence.tokens.begin() + sequence.n_prompt, sequence.tokens.end()};
}

/// Token i is the i-th lower-case letter; the others stand for no text.
void constrain(Sequence& sequence, std::string_view gbnf) {
  std::vector<std::string> pieces(kVocab);
  for (size_t i = 0; i < 26; ++i) pieces[i] = std::string(1, static_cast<char>('a' + i));
  sequence.request.constraint =
      Constraint::compile(parse_gbnf(gbnf), std::make_shared<const TokenTrie>(pieces));
  sequence.constraint.emplace(sequence.request.constraint);
}

/// Limits the thinking, in which the prompt ends, to n tokens. "z" closes it; the ending is "xyz".
void limit_thinking(Sequence& sequence, int n) {
  std::vector<std::string> pieces(kVocab);
  for (size_t i = 0; i < 26; ++i) pieces[i] = std::string(1, static_cast<char>('a' + i));
  auto budget = std::make_shared<ThinkingBudget>();
  budget->trie = std::make_shared<const TokenTrie>(pieces);
  budget->open = "q";
  budget->closes = {"z"};
  budget->begun = true;
  budget->n_tokens = n;
  budget->ending = {23, 24, 25};
  sequence.request.thinking = budget;
  sequence.thinking.emplace(sequence.request.thinking);
}

}  // namespace

TEST_CASE("token chooser: one row gives one token, which the client gets") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1, 2, 3});
  const ChosenTokens chosen = chooser.choose(sequence, 0, rows({7}));
  CHECK(chosen.n_tokens == 1);
  CHECK(chosen.n_accepted == 0);
  CHECK_FALSE(chosen.end);
  CHECK(generated(sequence) == std::vector<int32_t>{7});
  CHECK(pushed(sequence) == std::vector<int32_t>{7});
  CHECK(sequence.n_computed == 3);  // the caller's
}

TEST_CASE("token chooser: draft tokens are accepted up to the first wrong one") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1, 2, 3});
  sequence.drafts.in_prediction = true;
  draft(sequence, {4, 5, 6, 7});
  // 9 is chosen where 6 was drafted, so the last two rows belong to another text: they are NaN.
  const ChosenTokens chosen = chooser.choose(sequence, 4, rows({4, 5, 9, -1, -1}));
  CHECK(chosen.n_tokens == 3);
  CHECK(chosen.n_accepted == 2);
  CHECK_FALSE(chosen.end);
  CHECK(pushed(sequence) == std::vector<int32_t>{4, 5, 9});
  const DraftCounts& counts = sequence.draft_counts;
  CHECK(counts.n_drafted == 4);
  CHECK(counts.n_accepted == 2);
  CHECK(counts.n_predicted == 4);
  CHECK(counts.n_foreseen == 2);
}

TEST_CASE("token chooser: a draft that is right gives one token more than it has") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  draft(sequence, {4, 5, 6});
  const int n_computed = GENERATE(0, 1, 3);  // of the draft
  std::vector<float> logits = rows({4, 5, 6, 7});
  logits.resize(static_cast<size_t>((n_computed + 1) * kVocab));
  const ChosenTokens chosen = chooser.choose(sequence, n_computed, logits);
  CHECK(chosen.n_accepted == n_computed);
  CHECK(chosen.n_tokens == n_computed + 1);
  CHECK(sequence.draft_counts.n_predicted == 0);  // the draft is not from a prediction
}

TEST_CASE("token chooser: an end among the drafts ends the sequence there, and is not emitted") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  draft(sequence, {4, kEnd, 6});
  const ChosenTokens chosen = chooser.choose(sequence, 3, rows({4, kEnd, 6, 7}));
  REQUIRE(chosen.end);
  CHECK(chosen.end->reason == FinishReason::kStop);
  CHECK(chosen.n_accepted == 1);
  CHECK(pushed(sequence) == std::vector<int32_t>{4});
}

TEST_CASE(
    "token chooser: the last token that a request allows ends the sequence, whatever else was drafted") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1}, 2);
  draft(sequence, {4, 5, 6});
  const ChosenTokens chosen = chooser.choose(sequence, 3, rows({4, 5, 6, 7}));
  REQUIRE(chosen.end);
  CHECK(chosen.end->reason == FinishReason::kLength);
  CHECK(chosen.n_tokens == 2);
  CHECK(pushed(sequence) == std::vector<int32_t>{4, 5});
}

TEST_CASE("token chooser: no end token comes before min_tokens") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  sequence.request.min_tokens = 1;
  std::vector<float> logits = rows({kEnd});
  logits[8] = 4;
  CHECK_FALSE(chooser.choose(sequence, 0, logits).end);
  CHECK(generated(sequence) == std::vector<int32_t>{8});
  CHECK(chooser.choose(sequence, 0, logits).end);
}

TEST_CASE("token chooser: nothing more is chosen for a client that has cancelled") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  draft(sequence, {4, 5});
  sequence.stream->cancel();
  const ChosenTokens chosen = chooser.choose(sequence, 2, rows({4, 5, 6}));
  CHECK(chosen.n_tokens == 1);
  CHECK(chosen.n_accepted == 1);
  CHECK_FALSE(chosen.end);  // the engine ends cancelled sequences before its next step
}

TEST_CASE("token chooser: a row of NaN fails the sequence, and earlier tokens remain") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  draft(sequence, {4});
  const ChosenTokens chosen = chooser.choose(sequence, 1, rows({4, -1}));
  REQUIRE(chosen.end);
  CHECK(chosen.end->reason == FinishReason::kFailed);
  CHECK_FALSE(chosen.end->error.empty());
  CHECK(pushed(sequence) == std::vector<int32_t>{4});
}

TEST_CASE("token chooser: forced tokens need no rows, and confirm drafts like chosen ones") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  constrain(sequence, R"(root ::= ("a" | "x") "bcde" ("f" | "g") "hi")");
  SECTION("without drafts the text up to the next choice comes at once") {
    const ChosenTokens chosen = chooser.choose(sequence, 0, rows({0}));
    CHECK(chosen.n_tokens > 1);
    CHECK(chosen.n_accepted == 0);
    CHECK_FALSE(chosen.end);
    CHECK(generated(sequence).front() == 0);
  }
  SECTION("a draft of forced tokens is accepted whole, and the text goes on from its last row") {
    draft(sequence, {0, 1, 2, 3, 4});  // abcde
    const ChosenTokens chosen = chooser.choose(sequence, 5, rows({0, 1, 2, 3, 4, 6}));
    CHECK(chosen.n_accepted == 5);
    REQUIRE(chosen.end);  // after "g" all is forced, and the grammar ends
    CHECK(chosen.end->reason == FinishReason::kStop);
    CHECK(pushed(sequence) == std::vector<int32_t>{0, 1, 2, 3, 4, 6, 7, 8});
  }
  SECTION("with log-probabilities nothing is forced") {
    sequence.request.n_top_logprobs = 0;
    CHECK(chooser.choose(sequence, 0, rows({0})).n_tokens == 1);
  }
}

TEST_CASE("token chooser: a constraint and bans that leave no token are the request's fault") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  constrain(sequence, R"(root ::= "a")");
  sequence.request.sampling.logit_bias = {{0, -std::numeric_limits<float>::infinity()}};
  const ChosenTokens chosen = chooser.choose(sequence, 0, rows({3}));
  REQUIRE(chosen.end);
  CHECK(chosen.end->reason == FinishReason::kUnsatisfiable);
  CHECK_FALSE(chosen.end->error.empty());
  CHECK(pushed(sequence).empty());
}

TEST_CASE("token chooser: log-probabilities are those of the row that the token was chosen from") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  sequence.request.n_top_logprobs = 1;
  draft(sequence, {4});
  chooser.choose(sequence, 1, rows({4, 9}));
  const float expected = 5 - std::log(std::exp(5.0f) + kVocab - 1);
  for (const int32_t token : {4, 9}) {
    const std::optional<StreamEvent> event = sequence.stream->pop_for(std::chrono::milliseconds(0));
    REQUIRE(event);
    const TokenEvent& told = std::get<TokenEvent>(event->what);
    CHECK(told.token == token);
    CHECK(std::abs(told.logprob - expected) < 1e-5f);
    REQUIRE(told.top.size() == 1);
    CHECK(told.top.front().token == token);
  }
}

TEST_CASE("token chooser: the end of thinking follows the last token that its limit allows") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  limit_thinking(sequence, 2);
  CHECK(chooser.choose(sequence, 0, rows({4})).n_tokens == 1);
  sequence.n_computed = 2;
  const ChosenTokens chosen = chooser.choose(sequence, 0, rows({5}));
  CHECK(chosen.n_tokens == 4);
  CHECK_FALSE(chosen.end);
  CHECK(generated(sequence) == std::vector<int32_t>{4, 5, 23, 24, 25});
  CHECK(pushed(sequence) == generated(sequence));
  CHECK(chooser.choose(sequence, 0, rows({6})).n_tokens == 1);  // the answer is free
}

TEST_CASE("token chooser: a limit of zero ends thinking in place of the first token") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  limit_thinking(sequence, 0);
  CHECK(chooser.choose(sequence, 0, rows({4})).n_tokens == 3);
  CHECK(generated(sequence) == std::vector<int32_t>{23, 24, 25});
}

TEST_CASE("token chooser: with log-probabilities, the end of thinking comes token by token") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  limit_thinking(sequence, 1);
  sequence.request.n_top_logprobs = 0;
  for (const int32_t likely : {4, 5, 6, 7, 8})
    CHECK(chooser.choose(sequence, 0, rows({likely})).n_tokens == 1);
  CHECK(generated(sequence) == std::vector<int32_t>{4, 23, 24, 25, 8});
  while (const std::optional<StreamEvent> event = sequence.stream->pop_for(std::chrono::milliseconds(0)))
    CHECK(std::get<TokenEvent>(event->what).logprob < 0);
}

TEST_CASE("token chooser: drafts of the end of thinking are accepted, and others are not") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1});
  limit_thinking(sequence, 1);
  draft(sequence, {4, 23, 24, 9});
  const ChosenTokens chosen = chooser.choose(sequence, 4, rows({4, -1, -1, -1, -1}));
  CHECK(chosen.n_accepted == 3);
  CHECK(generated(sequence) == std::vector<int32_t>{4, 23, 24, 25});
}

TEST_CASE("token chooser: the end of thinking respects max_tokens, end tokens and a constraint") {
  TokenChooser chooser(kVocab);
  Sequence sequence = sequence_of({1}, 3);
  limit_thinking(sequence, 1);
  const ChosenTokens chosen = chooser.choose(sequence, 0, rows({4}));
  REQUIRE(chosen.end);
  CHECK(chosen.end->reason == FinishReason::kLength);
  CHECK(generated(sequence) == std::vector<int32_t>{4, 23, 24});

  Sequence stops = sequence_of({1});
  limit_thinking(stops, 1);
  stops.request.end_tokens = {24};
  const ChosenTokens stopped = chooser.choose(stops, 0, rows({4}));
  REQUIRE(stopped.end);
  CHECK(stopped.end->reason == FinishReason::kStop);
  CHECK(generated(stops) == std::vector<int32_t>{4, 23});

  Sequence bound = sequence_of({1});
  limit_thinking(bound, 1);
  constrain(bound, "root ::= [a-w]+");
  CHECK_FALSE(chooser.choose(bound, 0, rows({4})).end);
  CHECK_FALSE(chooser.choose(bound, 0, rows({5})).end);
  CHECK(generated(bound) == std::vector<int32_t>{4, 5});  // the constraint goes before the limit

  Sequence ends = sequence_of({1});
  limit_thinking(ends, 1);
  constrain(ends, R"(root ::= [a-z] "xyz")");
  const ChosenTokens ended = chooser.choose(ends, 0, rows({4}));
  REQUIRE(ended.end);
  CHECK(ended.end->reason == FinishReason::kStop);
  CHECK(generated(ends) == std::vector<int32_t>{4, 23, 24, 25});
}

TEST_CASE("a text that repeats itself ends only if the request says so, at the same token for any drafts") {
  TokenChooser chooser(kVocab);
  const auto n_until_end = [&chooser](bool ends, int n_before, bool drafts) {
    Sequence sequence = sequence_of({1, 2}, 2000);
    sequence.request.ends_if_repeating = ends;
    // Other tokens first, then three tokens again and again.
    const auto token_at = [n_before](int i) { return i < n_before ? 4 + i % 23 % 7 + i % 5 : 3 + i % 3; };
    for (int i = 0; i < 1500;) {
      if (drafts) draft(sequence, {token_at(i)});
      const int n = drafts ? 1 : 0;
      const ChosenTokens chosen =
          chooser.choose(sequence, n, drafts ? rows({token_at(i), token_at(i + 1)}) : rows({token_at(i)}));
      if (chosen.end) {
        CHECK(chosen.end->reason == FinishReason::kRepeated);
        return sequence.n_generated();
      }
      i += chosen.n_tokens;
      sequence.n_computed = static_cast<int>(sequence.tokens.size());
    }
    return 0;
  };
  CHECK(n_until_end(false, 0, false) == 0);
  CHECK(n_until_end(true, 0, false) == kRepeatingTokens);
  CHECK(n_until_end(true, 0, true) == kRepeatingTokens);
  CHECK(n_until_end(true, 100, false) == n_until_end(true, 100, true));
  CHECK(n_until_end(true, 100, false) == 640);  // the next check after 100 + kRepeatingTokens tokens
}

TEST_CASE("the text must repeat one part of at most kMostRepeated tokens") {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 2 * kRepeatingTokens; ++i) tokens.push_back(i % kMostRepeated);
  CHECK(repeats_itself(tokens));
  CHECK_FALSE(repeats_itself(std::span(tokens).first(kRepeatingTokens - 1)));
  tokens[tokens.size() - 100] = -1;
  CHECK_FALSE(repeats_itself(tokens));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % (kMostRepeated + 1));
  CHECK_FALSE(repeats_itself(tokens));
  CHECK(repeats_itself(std::vector<int32_t>(kRepeatingTokens, 7)));
}

}  // namespace hearth::token_chooser_test
