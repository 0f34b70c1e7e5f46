// Large counts are compiled to blocks, which must match the same texts as written-out repeats.
#include "engine/constraint/schema/counted.h"

#include <string>

#include "engine/constraint/constraint.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/constraint/schema/json_schema.h"
#include "tests/engine/constraint/schema/schema_checks.h"

namespace hearth::test {
namespace {

/// Tokens of one byte, and token 256 for "aaaaaaaaaa".
std::shared_ptr<const TokenTrie> vocabulary() {
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
  pieces.emplace_back("aaaaaaaaaa");
  return std::make_shared<const TokenTrie>(pieces);
}
constexpr int32_t kTen = 256;

ConstraintState state_of(const Grammar& grammar) {
  return ConstraintState(Constraint::compile(grammar, vocabulary()));
}

/// "<", then `what` least to most times, then ">".
Grammar bracketed(int least, int most) {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root");
  const auto many = counted(grammar, grammar.literal("a"), least, most);
  grammar.define(root, grammar.sequence(std::vector{grammar.literal("<"), many, grammar.literal(">")}));
  grammar.set_root(root);
  return grammar;
}

/// Whether the bracket may close after n letters; -1 if n letters are impossible.
int may_close(ConstraintState state, int n) {
  REQUIRE(state.accept('<'));
  for (; n >= 10; n -= 10)
    if (!state.accept(kTen)) return -1;
  for (; n > 0; --n)
    if (!state.accept('a')) return -1;
  return state.accept('>') ? 1 : 0;
}

}  // namespace

TEST_CASE("counted: every number of items within the bounds is allowed, and none beyond") {
  const auto [least, most] = GENERATE(table<int, int>({{0, 1536},
                                                       {0, 1537},
                                                       {0, 2048},
                                                       {0, 2047},
                                                       {5, 2600},
                                                       {1600, 1600},
                                                       {1600, 1601},
                                                       {1700, 9000},
                                                       {2048, 4096},
                                                       {1536, 4000},
                                                       {3000, Grammar::kNoMaximum},
                                                       {7, 5128}}));
  CAPTURE(least, most);
  const ConstraintState start = state_of(bracketed(least, most));
  for (const int n : {0,    1,    5,    6,    7,    8,    511,  512,  513,  1023, 1024, 1025,
                      1535, 1536, 1537, 1599, 1600, 1601, 1602, 2047, 2048, 2049, 2599, 2600,
                      2601, 2999, 3000, 3001, 3999, 4000, 4001, 4096, 4097, 5127, 5128, 5129}) {
    const bool too_many = most != Grammar::kNoMaximum && n > most;
    CAPTURE(n);
    CHECK(may_close(start, n) == (too_many ? -1 : n >= least ? 1 : 0));
  }
}

TEST_CASE("counted: the mask near a block's end allows what accept() takes") {
  ConstraintState state = state_of(bracketed(0, 1540));
  REQUIRE(state.accept('<'));
  for (int n = 0; n < 1540; ++n) {
    CAPTURE(n);
    ConstraintState copy = state;
    REQUIRE(state.mask().allows(kTen) == (n <= 1530));
    REQUIRE(state.mask().allows(kTen) == copy.accept(kTen));
    REQUIRE(state.mask().allows('>'));
    REQUIRE(state.accept('a'));
  }
  CHECK(state.forced() == ">");
}

TEST_CASE("counted: strings of a million characters, and arrays of as many items") {
  const std::string schema = GENERATE(
      as<std::string>(), R"({"type": "string", "maxLength": 1000000})",
      R"({"type": "string", "minLength": 100000})",
      R"({"type": "array", "items": {"type": "integer"}, "maxItems": 1000000})",
      R"({"type": "array", "items": {"type": "string", "maxLength": 100000}, "minItems": 20000, "maxItems": 400000})");
  INFO(schema);
  ConstraintState state = state_of(json_schema_grammar(schema));
  CHECK_FALSE(state.mask().none());
}

TEST_CASE("counted: a long string ends at its last character") {
  ConstraintState state =
      state_of(json_schema_grammar(R"({"type": "string", "minLength": 3000, "maxLength": 20000})"));
  REQUIRE(state.accept('"'));
  for (int n = 0; n < 20'000; n += 10) {
    REQUIRE(state.mask().allows('"') == (n >= 3000));
    REQUIRE(state.accept(kTen));
  }
  CHECK(state.forced() == "\"");
}

TEST_CASE("counted: a length combined with a pattern is unrolled, and refused above 2,000") {
  check_refused(R"({"type": "string", "pattern": "^a+$", "minLength": 2001})", "#/minLength", "at most 2000");
  ConstraintState state =
      state_of(json_schema_grammar(R"({"type": "string", "pattern": "^a+$", "maxLength": 100000})"));
  REQUIRE(state.accept('"'));
  for (int n = 0; n < 2000; n += 10) REQUIRE(state.accept(kTen));  // the maximum is reduced
  CHECK(state.forced() == "\"");
}

}  // namespace hearth::test
