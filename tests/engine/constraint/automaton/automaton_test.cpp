// Automata of grammars: their sizes, the views of their states, and which grammars are refused.
#include "engine/constraint/automaton/automaton.h"

#include <set>

#include "engine/constraint/grammar/gbnf.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

int32_t n_states(const char* grammar) { return Automaton(parse_gbnf(grammar), 8).n_states(); }

/// Follows bytes from the root's start; -1 if they lead nowhere.
int32_t follow(const Automaton& automaton, std::string_view bytes) {
  int32_t state = automaton.start();
  for (const char byte : bytes)
    if (state >= 0) state = automaton.next(state, static_cast<uint8_t>(byte));
  return state;
}

TEST_CASE("automaton: it has as few states as its language allows") {
  CHECK(n_states(R"(root ::= "abc")") == 4);
  CHECK(n_states(R"(root ::= "ax" | "bx" | "c" "x")") == 3);
  // the start is a state of its own, because it is not accepting
  CHECK(n_states(R"(root ::= "a"* "a"*)") == 2);
  CHECK(n_states(R"(root ::= ("a" | "b")+ | [ab] [ab]*)") == 2);
  CHECK(n_states(R"(root ::= "car" | "cat" | "bar" | "bat")") == 4);
  CHECK(n_states(R"(root ::= "a"{3})") == 4);
  CHECK(n_states(R"(root ::= "a"{2,4})") == 5);
  CHECK(n_states(R"(root ::= ("ab" | "ab" | "a" [b-d]?){9,10})") == 21);
}

TEST_CASE("automaton: small rules are inlined, recursive ones are called") {
  const Automaton flat(parse_gbnf("root ::= b b\nb ::= [01]"), 8);
  CHECK(flat.n_states() == 3);
  const Automaton deep(parse_gbnf("root ::= \"(\" root \")\" | \"x\""), 8);
  CHECK(deep.n_states() == 4);
  CHECK(deep.calls_of(follow(deep, "(")).size() == 1);
}

TEST_CASE("automaton: both and except are products") {
  Grammar grammar;
  const auto any = grammar.repeat(grammar.byte(ByteSet().set()), 0, Grammar::kNoMaximum);
  const auto has_a = grammar.sequence(std::vector{any, grammar.literal("a"), any});
  const auto short_one = grammar.repeat(grammar.byte(ByteSet().set()), 0, 2);
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, grammar.except(grammar.both(has_a, short_one), grammar.literal("ab")));
  grammar.set_root(root);
  const Automaton automaton(grammar, 8);
  const auto accepts = [&](std::string_view text) {
    const int32_t state = follow(automaton, text);
    return state >= 0 && automaton.is_accepting(state);
  };
  CHECK(accepts("a"));
  CHECK(accepts("ax"));
  CHECK(accepts("xa"));
  CHECK(accepts("aa"));
  CHECK_FALSE(accepts("ab"));
  CHECK_FALSE(accepts("x"));
  CHECK(follow(automaton, "xx") == -1);
  CHECK(follow(automaton, "ab") == -1);
  CHECK(follow(automaton, "axx") == -1);
}

TEST_CASE("automaton: paths that can never be completed are left out") {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root"), never = grammar.declare("never");
  grammar.define(never, grammar.sequence(std::vector{grammar.literal("n"), grammar.nothing()}));
  const auto dead = grammar.sequence(std::vector{grammar.literal("bc"), grammar.call(never)});
  grammar.define(root, grammar.choice(std::vector{grammar.literal("a"), dead}));
  grammar.set_root(root);
  const Automaton automaton(grammar, 8);
  CHECK(automaton.n_states() == 2);
  CHECK(follow(automaton, "b") == -1);
}

TEST_CASE("automaton: states of a long repeat share a view until its end is near") {
  const Automaton automaton(parse_gbnf("root ::= \"<\" [a-z]{0,100} \">\""), 8);
  CHECK(automaton.n_states() == 103);
  CHECK(automaton.n_views() < 14);
  const auto view_after = [&](size_t n) {
    return automaton.view(follow(automaton, "<" + std::string(n, 'q')));
  };
  CHECK(view_after(0) == view_after(50));
  CHECK(view_after(0) == view_after(92));
  CHECK(view_after(92) != view_after(94));
  CHECK(view_after(99) != view_after(100));
}

TEST_CASE("automaton: a view distinguishes calls of different rules, and what follows them") {
  const Automaton automaton(
      parse_gbnf("root ::= \"1\" a \".\" | \"2\" b \".\" | \"3\" a \".\" | \"4\" a \"!\"\n"
                 "a ::= \"a\" a | \"x\"\nb ::= \"b\" b | \"y\""),
      8);
  const auto view_after = [&](const char* text) { return automaton.view(follow(automaton, text)); };
  CHECK(view_after("1") == view_after("3"));
  CHECK(view_after("1") != view_after("2"));
  CHECK(view_after("1") != view_after("4"));
}

struct Refused {
  const char* name;
  const char* grammar;
  const char* message;
};

TEST_CASE("automaton: grammars that cannot be followed are refused with the rule's name") {
  const Refused refused = GENERATE(
      Refused{"endless", "root ::= \"x\" root", "\"root\" can never end"},
      Refused{"endless through others", "root ::= \"x\" | a\na ::= b \"x\"\nb ::= a \"y\"", "can never end"},
      Refused{"left recursion", "root ::= root \"a\" | \"b\"", "\"root\" begins with itself"},
      Refused{"indirect", "root ::= a\na ::= b \"x\" | \"q\"{70} | [a-z]*\nb ::= a \"y\"",
              "begins with itself"},
      Refused{"behind what may be empty", "root ::= e* root \"a\" | \"b\"\ne ::= \"e\"",
              "\"root\" begins with itself"},
      Refused{"behind a nullable rule", "root ::= n root \"a\" | \"b\"\nn ::= \"(\" n \")\" |",
              "\"root\" begins"});
  INFO(refused.name);
  CHECK_THROWS_WITH(Automaton(parse_gbnf(refused.grammar), 8), ContainsSubstring(refused.message));
}

TEST_CASE("automaton: a language without any text is refused") {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, grammar.both(grammar.literal("a"), grammar.literal("b")));
  grammar.set_root(root);
  CHECK_THROWS_WITH(Automaton(grammar, 8), ContainsSubstring("matches no text"));
}

TEST_CASE("automaton: a rule without a body is refused if it is reached") {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root"), missing = grammar.declare("missing");
  const auto call = grammar.call(missing);
  grammar.define(root, grammar.literal("a"));
  grammar.set_root(root);
  CHECK_NOTHROW(Automaton(grammar, 8));
  const Grammar::Rule other = grammar.declare("other");
  grammar.define(other, call);
  grammar.set_root(other);
  CHECK_THROWS_WITH(Automaton(grammar, 8), ContainsSubstring("\"missing\""));
}

TEST_CASE("automaton: a call within an intersection is refused") {
  Grammar grammar;
  const Grammar::Rule root = grammar.declare("root"), word = grammar.declare("word");
  grammar.define(word, grammar.literal("a"));
  grammar.define(root, grammar.both(grammar.call(word), grammar.literal("a")));
  grammar.set_root(root);
  CHECK_THROWS_WITH(Automaton(grammar, 8), ContainsSubstring("\"word\" is called in an intersection"));
}

TEST_CASE("automaton: a grammar without rules is refused") {
  CHECK_THROWS_WITH(Automaton(Grammar(), 8), ContainsSubstring("no rules"));
}

}  // namespace
}  // namespace hearth
