// GBNF: what each construct matches, and the positions of errors.
#include "engine/constraint/grammar/gbnf.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/grammar_matcher.h"

namespace hearth {
namespace {

bool matches(const std::string& grammar, std::string_view text) {
  const Grammar parsed = parse_gbnf(grammar);
  return test::GrammarMatcher(parsed).matches(text);
}

struct Construct {
  const char* rule;  // follows "root ::= "
  std::vector<std::string> in, out;
};

TEST_CASE("gbnf: each construct matches the texts it describes") {
  const Construct construct = GENERATE(
      Construct{R"("ab")", {"ab"}, {"", "a", "abb"}}, Construct{R"("a" "b")", {"ab"}, {"a b", "a"}},
      Construct{R"("a" | "b" "c")", {"a", "bc"}, {"ac", "b", "abc"}},
      Construct{R"(("a" | "b") "c")", {"ac", "bc"}, {"a"}},
      Construct{R"("ab"*)", {"", "ab", "abab"}, {"abb", "a"}}, Construct{R"("a"+)", {"a", "aaa"}, {""}},
      Construct{R"("a"?)", {"", "a"}, {"aa"}}, Construct{R"("a"{2})", {"aa"}, {"a", "aaa"}},
      Construct{R"("a"{2,})", {"aa", "aaaaa"}, {"a"}},
      Construct{R"("a"{1,2} "b")", {"ab", "aab"}, {"b", "aaab"}},
      Construct{R"("a"{ 0 , 1 })", {"", "a"}, {"aa"}}, Construct{R"("a"{2}{2})", {"aaaa"}, {"aa", "aaa"}},
      Construct{R"([a-c])", {"a", "b", "c"}, {"d", "", "ab"}},
      Construct{R"([^a-c\n])", {"d", "\xC3\xA9"}, {"a", "\n", "\xC3"}},
      Construct{R"([-a])", {"-", "a"}, {"b"}}, Construct{R"([a-])", {"-", "a"}, {"b"}},
      Construct{R"([\]\[\\^])", {"]", "[", "\\", "^"}, {"a"}}, Construct{R"([])", {}, {"", "a", "]"}},
      Construct{R"([^])", {"a", "]"}, {""}},
      Construct{R"(.)", {"a", "\n", "\xF0\x9F\x99\x82"}, {"", "ab", "\x80", "\xF0\x9F", "\xED\xA0\x80"}},
      Construct{R"("\x41\u00e9\U0001F642\n\r\t\"\\")", {"A\xC3\xA9\xF0\x9F\x99\x82\n\r\t\"\\"}, {"A"}},
      Construct{R"("\xe9")", {"\xC3\xA9"}, {"\xE9"}}, Construct{"\"\xC3\xA9\"", {"\xC3\xA9"}, {"\xC3"}},
      Construct{"[\xC3\xA9-\xC3\xAB]", {"\xC3\xA9", "\xC3\xAA"}, {"\xC3\xAC", "\xC3"}},
      Construct{"\"a\" | ", {"a", ""}, {"b"}}, Construct{"", {""}, {"a"}},
      Construct{"( \"a\"\n  \"b\" # why\n)", {"ab"}, {"a"}},
      Construct{"\"a\" |\n\n \"b\"", {"a", "b"}, {"ab"}}, Construct{"\n \"a\"", {"a"}, {""}},
      Construct{"\"a\"\n  | \"b\"", {"a", "b"}, {"ab"}}, Construct{"\"a\" # | \"b\"\n", {"a"}, {"b"}},
      Construct{"\"#\"\r\n", {"#"}, {""}});
  INFO(construct.rule);
  for (const std::string& text : construct.in) {
    INFO("'" << text << "'");
    CHECK(matches(std::string("root ::= ") + construct.rule, text));
  }
  for (const std::string& text : construct.out) {
    INFO("'" << text << "'");
    CHECK_FALSE(matches(std::string("root ::= ") + construct.rule, text));
  }
}

TEST_CASE("gbnf: rules call rules, in any order") {
  const std::string grammar =
      "# arithmetic\nroot ::= term-1 (op term-1)*\n\nterm-1 ::= [0-9]+ | \"(\" root \")\"\r\nop ::= [-+*/] # "
      "four\n";
  CHECK(matches(grammar, "1+(22*3)-4"));
  CHECK(matches(grammar, "((7))"));
  CHECK_FALSE(matches(grammar, "1+"));
  CHECK_FALSE(matches(grammar, "(1"));
}

struct Fault {
  const char* grammar;
  const char* where;
  const char* message;
};

TEST_CASE("gbnf: errors are reported with their position") {
  const Fault fault =
      GENERATE(Fault{"", "line 1, column 1", "no rule \"root\""},
               Fault{"a ::= \"x\"", "line 1, column 10", "no rule \"root\""},
               Fault{"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1", "defined twice"},
               Fault{"root ::= a\n  b ::= c", "line 1, column 10", "\"a\" is used but not defined"},
               Fault{"root = \"a\"", "line 1, column 6", "expected ::= after the name of a rule, found '='"},
               Fault{"root ::= \"a", "line 1, column 12", "to end the literal"},
               Fault{"root ::= [a", "line 1, column 12", "to end the class"},
               Fault{"root ::= [a-", "line 1, column 13", "to end the class"},
               Fault{"root ::= (\"a\"\n\"b\"", "line 2, column 4", "to end the group"},
               Fault{"root ::= \"a\")", "line 1, column 13", "found ')'"},
               Fault{"root ::= *", "line 1, column 10", "found '*'"},
               Fault{"root ::= \"\\q\"", "line 1, column 12", "behind \\, found 'q'"},
               Fault{"root ::= \"\\x4\"", "line 1, column 14", "2 hexadecimal digits"},
               Fault{"root ::= \"\\ud800\"", "line 1, column 13", "not a character"},
               Fault{"root ::= \"\\U00110000\"", "line 1, column 13", "not a character"},
               Fault{"root ::= [z-a]", "line 1, column 11", "ends before it begins"},
               Fault{"root ::= \"a\"{2,1}", "line 1, column 14", "below its minimum"},
               Fault{"root ::= \"a\"{}", "line 1, column 14", "number of times"},
               Fault{"root ::= \"a\"{-1}", "line 1, column 14", "number of times"},
               Fault{"root ::= \"a\"{99999999999}", "line 1, column 14", "at most"},
               Fault{"root ::= \"a\"{1", "line 1, column 15", "to end the repetition"},
               Fault{"root ::= \"\xFF\"", "line 1, column 11", "not UTF-8"},
               Fault{"root ::= \"\xC0\x80\"", "line 1, column 11", "not UTF-8"},
               Fault{"root ::= \"\xED\xA0\x80\"", "line 1, column 11", "not UTF-8"},
               Fault{"root ::= \"\xE2\x82", "line 1, column 11", "not UTF-8"},
               Fault{"root ::= <think>", "line 1, column 10", "tokens in a grammar"},
               Fault{"root ::= \"a\"\n::= \"b\"", "line 2, column 1", "a rule's name, found ':'"},
               Fault{"root ::= \"a\" \x01", "line 1, column 14", "not an ASCII"});
  INFO(fault.grammar);
  try {
    parse_gbnf(fault.grammar);
    FAIL("was not refused");
  } catch (const ConstraintError& error) {
    CHECK(error.where() == fault.where);
    CHECK_THAT(error.what(), ContainsSubstring(fault.message));
    CHECK_THAT(error.what(), ContainsSubstring(fault.where));
  }
}

}  // namespace
}  // namespace hearth
