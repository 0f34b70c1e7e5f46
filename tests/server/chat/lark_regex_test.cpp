// Grammars in Lark's notation, as the regular expressions that stand for them.
#include "server/chat/tools/lark_regex.h"

#include <string>

#include "engine/constraint/constraint_error.h"
#include "engine/constraint/schema/json_schema.h"
#include "server/json/json.h"
#include "tests/support/catch.h"
#include "tests/support/grammar_matcher.h"

namespace hearth {
namespace {

/// Whether a JSON string with this text conforms to the grammar, by way of a schema.
struct LarkLanguage {
  explicit LarkLanguage(const std::string& definition) {
    const Grammar::Rule root = grammar.declare("root");
    grammar.define(
        root,
        json_schema_expression(
            grammar, json_text({{"type", "string"}, {"pattern", "^" + lark_to_regex(definition) + "$"}})));
    grammar.set_root(root);
  }
  bool has(const std::string& text) const { return test::GrammarMatcher(grammar).matches(Json(text).dump()); }
  Grammar grammar;
};

TEST_CASE("lark: rules, terminals, groups and repeats") {
  const LarkLanguage language(R"(
// A comment.
start: greeting ("," name)* END?   // another
?greeting.2: "hi" | "hello" -> long
name: /[a-z]+/ [DIGITS]
DIGITS: "0".."9"~1..3
END: "!"~2
  | "." WS_INLINE
%import common.WS_INLINE
)");
  for (const char* text : {"hi", "hello", "hi,ann", "hi,ann,bo12", "hi!!", "hello,x. "}) {
    INFO(text);
    CHECK(language.has(text));
  }
  for (const char* text : {"", "hi,", "hi!", "hi,ann1234", "hi.", "hihi", "long"}) {
    INFO(text);
    CHECK_FALSE(language.has(text));
  }
}

TEST_CASE("lark: texts mean their characters, expressions what they say") {
  const LarkLanguage language("start: \"a.b*\\n\" /[^x\\/]/ \"\\\"\" (/./ | \"\")");
  CHECK(language.has("a.b*\ny\"z"));
  CHECK(language.has("a.b*\ny\""));
  CHECK_FALSE(language.has("aab*\ny\"z"));
  CHECK_FALSE(language.has("a.b*\nx\"z"));
  CHECK_FALSE(language.has("a.b*\ny\"\n"));
}

TEST_CASE("lark: a grammar of patches with imports at its end") {
  const LarkLanguage language(R"(
start: begin change+ finish
begin: "*** Begin" LF
finish: "*** End" LF?
change: "*** File: " path LF line+
path: /(.+)/
line: ("+" | "-" | " ") /(.*)/ LF

%import common.LF
)");
  CHECK(language.has("*** Begin\n*** File: a/b.txt\n+new \"line\"\n-old\n context\n*** End\n"));
  CHECK(language.has("*** Begin\n*** File: a\n+\n*** File: b\n-\n*** End"));
  CHECK_FALSE(language.has("*** Begin\n*** End\n"));
  CHECK_FALSE(language.has("*** Begin\n*** File: a\nno sign\n*** End\n"));
}

TEST_CASE("lark: an empty alternative, a name imported under another name") {
  const LarkLanguage language("start: a INTEGER\na: | \"x\"\n%import common.INT -> INTEGER");
  CHECK(language.has("7"));
  CHECK(language.has("x12"));
  CHECK_FALSE(language.has("x"));
}

TEST_CASE("lark: what cannot be enforced is refused with its line") {
  struct Case {
    std::string definition, sentence, where;
  };
  const std::vector<Case> cases = {
      {"a: \"x\"", "no rule 'start'", "line 1"},
      {"start: a\n\na: \"(\" start \")\" | \"x\"", "contains itself", "line 3"},
      {"start: b", "'b' is not defined", "line 1"},
      {"start: \"a\"\nstart: \"b\"", "defined twice", "line 2"},
      {"start: \"a\"\n%ignore \" \"", "'%ignore' is not supported", "line 2"},
      {"start: \"a\"i", "flags such as 'i'", "line 1"},
      {"start: \"a", "has no end", "line 1"},
      {"start: (\"a\"", "a bracket is not closed", "line 1"},
      {"start: \"a\")", "is not expected here", "line 1"},
      {"start: \"a\"..\"bc\"", "a range needs", "line 1"},
      {"start: \"a\"~", "'~' needs a number", "line 1"},
      {"start: a{\"x\"}", "the character { is not supported", "line 1"},
      {"start", "a ':' is missing", "line 1"},
      {"start.", "a ':' is missing", "line 1"},
      {"%import common.REGEXP", "'common.REGEXP' is not supported", "line 1"},
      {"%import python (NAME)", "only 'common.NAME'", "line 1"},
      {"start: " + std::string(5000, '('), "nested too deeply", "line 1"},
  };
  for (const Case& one : cases) {
    INFO(one.definition.substr(0, 40));
    try {
      lark_to_regex(one.definition);
      FAIL_CHECK("taken");
    } catch (const ConstraintError& error) {
      CHECK_THAT(error.what(), ContainsSubstring(one.sentence));
      CHECK(error.where() == one.where);
    }
  }
  std::string doubling = "start: r20\nr0: \"x\"\n";
  for (int i = 1; i <= 20; ++i)
    doubling += "r" + std::to_string(i) + ": r" + std::to_string(i - 1) + " r" + std::to_string(i - 1) + "\n";
  CHECK_THROWS_AS(lark_to_regex(doubling), ConstraintError);
}

}  // namespace
}  // namespace hearth
