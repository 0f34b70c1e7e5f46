// The engine with sequences that must follow a grammar, on a scripted model that does not know it.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <regex>
#include <string>

#include "engine/constraint/constraint.h"
#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/engine.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

using namespace hearth;

namespace {

constexpr int32_t kEnd = 96;

/// Letters, digits, marks, and some tokens of several bytes; the rest of the 97 tokens have no text.
std::vector<std::string> pieces() {
  std::vector<std::string> out(97);
  size_t n = 0;
  for (char c = 'a'; c <= 'z'; ++c) out[n++] = std::string(1, c);
  for (char c = '0'; c <= '9'; ++c) out[n++] = std::string(1, c);
  for (const char* text : {"{", "}", "\"", ":", ",", "abc", "de", "{\"", "\":", "name", "am", "e\""})
    out[n++] = text;
  return out;
}

std::shared_ptr<const Constraint> constraint(std::string_view gbnf) {
  static const auto trie = std::make_shared<const TokenTrie>(pieces());
  return Constraint::compile(parse_gbnf(gbnf), trie);
}

std::string text_of(const std::vector<int32_t>& tokens) {
  static const std::vector<std::string> all = pieces();
  std::string text;
  for (const int32_t token : tokens) text += all[static_cast<size_t>(token)];
  return text;
}

SequenceRequest constrained(SequenceRequest request, std::string_view gbnf) {
  request.constraint = constraint(gbnf);
  request.end_tokens = {kEnd};
  return request;
}

}  // namespace

TEST_CASE("engine: a constrained text always follows its grammar and ends where nothing can follow") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 3, .context_tokens = 128});
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SequenceRequest request = constrained(sampled(some_tokens(5, seed), 60, seed),
                                          R"(root ::= "{\"name\":" [0-9]{1,6} ("," [a-z]{2,4}){0,2} "}")");
    request.sampling.temperature = 5;
    const Answer answer = ask(engine, std::move(request));
    CHECK(answer.finished.reason == FinishReason::kStop);
    CHECK(std::regex_match(text_of(answer.tokens), std::regex(R"(\{"name":[0-9]{1,6}(,[a-z]{2,4}){0,2}\})")));
    CHECK(std::ranges::find(answer.tokens, kEnd) == answer.tokens.end());
  }
}

TEST_CASE(
    "engine: a text that may end anywhere ends with an end token, not before min_tokens, or by its length") {
  const auto script = [](std::span<const int32_t>, std::span<float> logits) {
    std::ranges::fill(logits, 0.0f);
    logits[kEnd] = 9;  // the model would always end
    logits[3] = 5;
  };
  ScriptedModel model({.script = script, .before_step = {}});
  Engine engine(model, {.n_slots = 1, .context_tokens = 64});
  SequenceRequest request = constrained(greedy({1}, 10), "root ::= [a-z]+");
  CHECK(text_of(ask(engine, request).tokens) == "d");  // the first letter must not be left out
  request.min_tokens = 4;
  Answer answer = ask(engine, request);
  CHECK(text_of(answer.tokens) == "dddd");
  CHECK(answer.finished.reason == FinishReason::kStop);
  request.max_tokens = 3;
  answer = ask(engine, request);
  CHECK(text_of(answer.tokens) == "ddd");
  CHECK(answer.finished.reason == FinishReason::kLength);
}

TEST_CASE("engine: forced text is computed in one step, and is the same as if it were chosen") {
  std::atomic<int> n_steps = 0;
  ScriptedModel model({.before_step = [&](const Batch&) { ++n_steps; }});
  Engine engine(model, {.n_slots = 2, .context_tokens = 128});
  constexpr auto kGrammar = R"(root ::= [xyz] "abcdefgh" [0-9] "{\"name\":1234567890}")";
  SequenceRequest request = constrained(greedy(some_tokens(6, 1), 60), kGrammar);
  const Answer answer = ask(engine, request);
  CHECK(std::regex_match(text_of(answer.tokens), std::regex(R"([xyz]abcdefgh[0-9]\{"name":1234567890\})")));
  CHECK(answer.finished.reason == FinishReason::kStop);
  CHECK(n_steps < static_cast<int>(answer.tokens.size()) / 2);
  // With log-probabilities, every token needs a row of logits, so no token is forced. The first choice's text
  // is the same as without them.
  request.n_top_logprobs = 1;
  n_steps = 0;
  const Answer chosen = ask(engine, request);
  CHECK(text_of(chosen.tokens).front() == text_of(answer.tokens).front());
  CHECK(n_steps >= static_cast<int>(chosen.tokens.size()));
  CHECK(chosen.events.back().top.size() == 1);
  // Cut off within the forced text.
  request.n_top_logprobs = -1;
  request.max_tokens = 4;
  const Answer cut = ask(engine, request);
  CHECK(cut.tokens == std::vector<int32_t>(answer.tokens.begin(), answer.tokens.begin() + 4));
  CHECK(cut.finished.reason == FinishReason::kLength);
}

TEST_CASE("engine: forced text respects logit_bias, and ends at an end token") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 1, .context_tokens = 64});
  const auto answer_to = [&](const std::function<void(SequenceRequest&)>& change) {
    SequenceRequest request = constrained(greedy(some_tokens(4, 2), 20), R"(root ::= "xabcz")");
    change(request);
    return ask(engine, std::move(request));
  };
  const int32_t abc = 41;  // can be written as one token or as three
  REQUIRE(pieces()[static_cast<size_t>(abc)] == "abc");
  CHECK(std::ranges::count(answer_to([](SequenceRequest&) {}).tokens, abc) == 1);
  const Answer banned = answer_to([&](SequenceRequest& request) {
    request.sampling.logit_bias = {{abc, -100.0f}};
  });
  CHECK(text_of(banned.tokens) == "xabcz");
  CHECK(std::ranges::count(banned.tokens, abc) == 0);
  // With and without log-probabilities, which prevent forced tokens.
  for (const int n_logprobs : {-1, 0}) {
    const Answer ended = answer_to([&](SequenceRequest& request) {
      request.sampling.logit_bias.clear();
      request.n_top_logprobs = n_logprobs;
      request.end_tokens = {kEnd, 'z' - 'a'};
    });
    CHECK(text_of(ended.tokens) == "xabc");
    CHECK(ended.finished.reason == FinishReason::kStop);
  }
}

TEST_CASE("engine: a constrained answer does not depend on company, chunk size or the prefix cache") {
  constexpr auto kGrammar = R"(root ::= "{" ("\"name\":" [a-z]{3} ","){1,3} "}")";
  const auto request = [&](uint64_t seed) {
    SequenceRequest one = constrained(sampled(some_tokens(9, seed), 50, seed), kGrammar);
    one.sampling.temperature = 3;
    return one;
  };
  std::vector<std::vector<int32_t>> alone;
  {
    ScriptedModel model({});
    Engine engine(model, {.n_slots = 1, .context_tokens = 128});
    for (uint64_t seed = 0; seed < 8; ++seed) alone.push_back(ask(engine, request(seed)).tokens);
  }
  for (const int chunk : {1, 2, 7, 64}) {
    ScriptedModel model({});
    Engine engine(model, {.n_slots = 3, .context_tokens = 128, .prefill_chunk = chunk});
    for (int round = 0; round < 2; ++round) {
      GenerationRequest all;
      for (uint64_t seed = 0; seed < 8; ++seed) all.sequences.push_back(request(seed));
      const auto stream = submit(engine, std::move(all));
      const std::vector<Answer> answers = read_all(*stream, 8);
      for (size_t i = 0; i < 8; ++i) CHECK(answers[i].tokens == alone[i]);
    }
  }
}

TEST_CASE("engine: a grammar that the vocabulary cannot spell fails its own sequence only, with a sentence") {
  ScriptedModel model({});
  Engine engine(model, {.n_slots = 2, .context_tokens = 64});
  const Answer answer = ask(engine, constrained(greedy(some_tokens(4, 2), 9), R"(root ::= "a" "?" "b")"));
  CHECK(answer.finished.reason == FinishReason::kUnsatisfiable);
  CHECK_THAT(answer.finished.error, ContainsSubstring("leave no token"));
  const std::vector<int32_t> prompt = some_tokens(4, 3);
  CHECK(ask(engine, greedy(prompt, 5)).tokens == continuation(prompt, 5));
}
