// Grammars made to take much time, memory or stack: each is refused or harmless. A slow grammar would make
// the test slow.
#include <string>

#include "engine/constraint/constraint.h"
#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/mask_cache.h"
#include "engine/constraint/mask/token_trie.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

std::shared_ptr<const TokenTrie> bytes() {
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
  return std::make_shared<const TokenTrie>(pieces);
}

std::shared_ptr<const Constraint> compile(const std::string& grammar) {
  return Constraint::compile(parse_gbnf(grammar), bytes());
}

std::string times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

TEST_CASE("hostile grammars: too large automata are refused with the rule's name") {
  const std::string grammar =
      GENERATE(as<std::string>(), "root ::= big\nbig ::= ((\"a\"{1,1000}){1,1000}){1,1000}",
               "root ::= big\nbig ::= \"a\"{0,1000000}", "root ::= big\nbig ::= (\"\"{1,1000000}){1,1000000}",
               "root ::= big\nbig ::= (\"a\"?){100000} \"b\"", "root ::= big\nbig ::= [ab]* \"a\" [ab]{30}",
               "root ::= big\nbig ::= ([ab]* \"a\" [ab]{12}){100}",
               "root ::= big\nbig ::= (.{0,1000} \"x\" .{0,1000}){0,1000}");
  INFO(grammar);
  CHECK_THROWS_WITH(compile(grammar), ContainsSubstring("too large") && ContainsSubstring("\"big\""));
}

TEST_CASE("hostile grammars: rules that double at each step force a text without end") {
  std::string grammar = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    grammar += "r" + std::to_string(i) + " ::= " + next + " " + next + "\n";
  }
  const ConstraintState state(compile(grammar + "r60 ::= \"ab\""));
  const std::string forced = state.forced();
  CHECK(forced.size() == MaskCache::kMostForcedBytes);
  CHECK(forced.substr(0, 6) == "ababab");
}

TEST_CASE("hostile grammars: expressions shared to double at each step are refused") {
  Grammar grammar;
  auto expr = grammar.literal("a");
  for (int i = 0; i < 60; ++i) expr = grammar.sequence(std::vector{expr, expr});
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, expr);
  grammar.set_root(root);
  CHECK_THROWS_WITH(Constraint::compile(grammar, bytes()), ContainsSubstring("too large"));
}

TEST_CASE("hostile grammars: a choice of shared empty choices is refused") {
  Grammar grammar;
  auto expr = grammar.empty();
  for (int i = 0; i < 20; ++i) expr = grammar.choice(std::vector<Grammar::Expr>(50, expr));
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, expr);
  grammar.set_root(root);
  CHECK_THROWS_WITH(Constraint::compile(grammar, bytes()), ContainsSubstring("too large"));
}

TEST_CASE("hostile grammars: nesting takes no stack") {
  SECTION("repeats of repeats") { CHECK_NOTHROW(compile("root ::= \"a\"" + times(300'000, "?"))); }
  SECTION("chains of rules") {
    std::string grammar = "root ::= \"<\" r0\n";
    for (int i = 0; i < 20'000; ++i)
      grammar += "r" + std::to_string(i) + " ::= \"a\"* \"b\"* \"c\"* \"d\"* \"e\"* r" +
                 std::to_string(i + 1) + "\n";
    CHECK_THROWS_AS(compile(grammar + "r20000 ::= \"x\""), ConstraintError);
  }
  SECTION("sequences in sequences") {
    Grammar grammar;
    auto expr = grammar.literal("a");
    for (int i = 0; i < 100'000; ++i) expr = grammar.sequence(std::vector{grammar.empty(), expr});
    const Grammar::Rule root = grammar.declare("root");
    grammar.define(root, expr);
    grammar.set_root(root);
    CHECK_NOTHROW(Constraint::compile(grammar, bytes()));
  }
  SECTION("intersections in intersections") {
    Grammar grammar;
    auto expr = grammar.literal("a");
    for (int i = 0; i < 100'000; ++i) expr = grammar.both(expr, grammar.literal("a"));
    const Grammar::Rule root = grammar.declare("root");
    grammar.define(root, expr);
    grammar.set_root(root);
    CHECK_THROWS_WITH(Constraint::compile(grammar, bytes()), ContainsSubstring("in one another"));
  }
  SECTION("counted repeats in counted repeats") {
    CHECK_THROWS_AS(compile("root ::= " + times(150, "(") + "\"a\"" + times(150, "){1,9}")), ConstraintError);
  }
}

TEST_CASE("hostile grammars: deep texts are followed, in any number of ways up to a limit") {
  SECTION("one way: as deep as one likes") {
    ConstraintState state(compile("root ::= \"(\" root \")\" | \"x\""));
    for (int i = 0; i < 50'000; ++i) REQUIRE(state.accept('('));
    REQUIRE(state.accept('x'));
    CHECK(state.forced().size() == MaskCache::kMostForcedBytes);
    for (int i = 0; i < 50'000; ++i) REQUIRE(state.accept(')'));
    CHECK(state.must_end());
  }
  SECTION("a list that calls itself at its end takes no memory") {
    ConstraintState state(compile("root ::= \"x\" root | \"y\""));
    for (int i = 0; i < 50'000; ++i) REQUIRE(state.accept('x'));
    CHECK(state.mask().allows('y'));
  }
  SECTION("a way for each depth") {
    ConstraintState state(compile("root ::= \"(\" root \"x\"? | \"y\""));
    for (int i = 0; i < 1000; ++i) REQUIRE(state.accept('('));
    ConstraintState shallow = state;
    REQUIRE(shallow.accept('y'));
    for (int i = 0; i < 1000; ++i) REQUIRE(shallow.accept('x'));
    CHECK(shallow.must_end());
    for (int i = 0; i < 10'000; ++i) REQUIRE(state.accept('('));
    CHECK_THROWS_WITH(state.accept('y'), ContainsSubstring("too ambiguous"));
    CHECK(state.accept('('));  // nothing was changed
  }
  SECTION("exponentially many ways are few stacks") {
    ConstraintState state(compile("root ::= \"a\" | \"a\" root | \"a\" root root"));
    for (int i = 0; i < 60; ++i) REQUIRE(state.accept('a'));
    CHECK(state.may_end());
    CHECK_FALSE(state.must_end());
  }
}

TEST_CASE("hostile grammars: a million bytes are parsed, or refused") {
  CHECK_NOTHROW(parse_gbnf("root ::= \"" + std::string(1'000'000, 'a') + "\""));
  CHECK_THROWS_WITH(parse_gbnf("root ::= \"" + std::string(1 << 20, 'a') + "\""),
                    ContainsSubstring("at most"));
  CHECK_THROWS_WITH(parse_gbnf("root ::= " + times(500'000, "(")),
                    ContainsSubstring("groups within each other"));
  CHECK_THROWS_AS(parse_gbnf("root ::= " + times(500'000, "a ")), ConstraintError);
}

}  // namespace
}  // namespace hearth
