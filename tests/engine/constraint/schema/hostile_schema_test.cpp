// Schemas and expressions made to take much time or memory: each is refused with a message, or compiled.
// Prints how long each takes in the thread's own time, without asserting it.
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/json_schema.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// All bytes, and 18,252 words of two and three letters.
std::shared_ptr<const TokenTrie> letter_vocabulary() {
  static const auto trie = [] {
    std::vector<std::string> pieces;
    for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
    for (char a = 'a'; a <= 'z'; ++a)
      for (char b = 'a'; b <= 'z'; ++b) {
        pieces.push_back({a, b});
        for (char c = 'a'; c <= 'z'; ++c) pieces.push_back({a, b, c});
      }
    return std::make_shared<const TokenTrie>(std::move(pieces));
  }();
  return trie;
}

double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::string times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

/// begin item(0), item(1), ... end
template <typename Item>
std::string listed(const std::string& begin, int n, Item item, const std::string& end) {
  std::string all = begin;
  for (int i = 0; i < n; ++i) all.append(i == 0 ? "" : ",").append(item(i));
  return all + end;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }
/// A word that shares little with adjacent ones.
std::string word(int i) { return "w" + std::to_string(static_cast<uint32_t>(i) * 2654435761U); }

struct Hostile {
  std::string name, schema;
};

std::vector<Hostile> hostile_schemas() {
  const auto property = [](int i) { return quoted(word(i)) + R"(:{"type":"string"})"; };
  const auto name = [](int i) { return quoted(word(i)); };
  const auto tagged = [](int i) {
    return R"({"type":"object","properties":{"kind":{"const":")" + word(i) +
           R"("},"v":{"type":"integer"}},"required":["kind"]})";
  };
  const std::string many =
      listed(R"({"type":"object","additionalProperties":false,"properties":{)", 5000, property, "}");
  std::vector<Hostile> all{
      {"arrays nested 5,000 deep", times(5000, R"({"items":)") + "{}" + times(5000, "}")},
      {"objects nested 200 deep", times(200, R"({"properties":{"a":)") + "{}" + times(200, "}}")},
      {"anyOf nested 120 deep", times(120, R"({"anyOf":[{"type":"null"},)") + "{}" + times(120, "]}")},
      {"allOf nested 120 deep", times(120, R"({"allOf":[{"minLength":1},)") + "{}" + times(120, "]}")},
      {"100,000 brackets", times(100'000, "[")},
      {"a circle of references",
       R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})"},
      {"a value that needs itself", R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"},
      {"a value that is all of itself",
       R"({"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"type":"object"}]}},"$ref":"#/$defs/a"})"},
      {"two recursions that merge",
       R"({"$defs":{"a":{"properties":{"x":{"$ref":"#/$defs/b"},"y":{"$ref":"#/$defs/a"}}},
        "b":{"properties":{"x":{"$ref":"#/$defs/a"},"z":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}}}},
        "allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]})"},
      {"1 MB", R"({"description":")" + std::string(1'000'000, 'x') + "\"}"},
      {"500 KB of one description", R"({"description":")" + std::string(500'000, 'x') + "\"}"},
      {"20,000 strings to choose from", listed(R"({"enum":[)", 20'000, name, "]}")},
      {"60,000 numbers to choose from",
       listed(R"({"enum":[)", 60'000, [](int i) { return std::to_string(i * 7); }, "]}")},
      {"20,000 strings that alternatives share",
       listed(R"({"anyOf":[{"type":"string","maxLength":7},{"type":"integer"}],"enum":[)", 20'000, name,
              "]}")},
      {"a pattern and a listed text of 200,000 characters",
       R"({"pattern":"^(ab)*$","enum":[")" + times(100'000, "ab") + "\"]}"},
      {"two listed objects of 20,000 members",
       listed(R"({"allOf":[{"enum":[{)", 20'000, [](int i) { return quoted(std::to_string(i)) + ":1"; },
              "}]},") +
           listed(R"({"enum":[{)", 20'000, [](int i) { return quoted(std::to_string(19'999 - i)) + ":1"; },
                  "}]}]}")},
      {"10,000 references to 20,000 definitions",
       listed(R"({"anyOf":[)", 10'000, [](int) { return std::string(R"({"$ref":"#/$defs/19999"})"); }, "],") +
           listed(R"("$defs":{)", 20'000, [](int i) { return quoted(std::to_string(i)) + ":{}"; }, "}}")},
      {"a long name above 10,000 objects",
       R"({"properties":{")" + std::string(200'000, 'n') + "\":" +
           listed(R"({"properties":{)", 10'000,
                  [](int i) { return quoted(word(i)) + R"(:{"type":"object"})"; }, "}}}}")},
      {"a long name before 10,000 others",
       listed(R"({"properties":{")" + std::string(200'000, 'n') + "\":{},", 10'000,
              [](int i) { return quoted(word(i)) + ":{}"; }, "}}")},
      {"20,000 strings, of which a pattern takes some",
       listed(R"({"pattern":"^w[0-9]*7$","enum":[)", 20'000, name, "]}")},
      {"5,000 optional properties", many + "}"},
      {"5,000 required properties", many + listed(",\"required\":[", 5000, name, "]}")},
      {"5,000 properties, 2,500 of them at least", many + ",\"minProperties\":2500}"},
      {"5,000 properties, 5 of them at most", many + ",\"maxProperties\":5}"},
      {"5,000 properties and others",
       listed(R"({"additionalProperties":{"type":"integer"},"properties":{)", 5000, property, "}}")},
      {"5,000 properties and two patterns",
       listed(R"({"patternProperties":{"^a":{"type":"null"},"b$":{"type":"integer"}},"properties":{)", 5000,
              property, "}}")},
      {"5,000 names",
       listed(R"({"additionalProperties":{"type":"integer"},"propertyNames":{"enum":[)", 5000, name, "]}}")},
      {"5,000 different items", listed(R"({"uniqueItems":true,"items":{"enum":[)", 5000, name, "]}}")},
      {"2,000 alternatives with tags", listed(R"({"oneOf":[)", 2000, tagged, "]}")},
      {"3,000 alternatives", listed(R"({"anyOf":[)", 3000, tagged, "]}")},
      {"25 choices of two in a row", listed(R"({"allOf":[)", 25,
                                            [](int i) {
                                              return R"({"anyOf":[{"required":[")" + word(i) +
                                                     R"("]},{"required":["b)" + word(i) + R"("]}]})";
                                            },
                                            "]}")},
      {"a string of a million characters", R"({"type":"string","minLength":999999,"maxLength":1000000})"},
      {"a pattern and a long string", R"({"type":"string","pattern":"^[a-z ,.]*$","maxLength":100000})"},
      {"three patterns that must hold together",
       R"({"allOf":[{"pattern":"^(a|b)*a(a|b){12}$"},{"pattern":"(ab|ba){6}"},{"pattern":"^.{5,900}$"}]})"},
      {"a million items of a million items",
       R"({"maxItems":1000000,"minItems":900000,"items":{"maxItems":1000000,"minItems":900000,"items":{"type":"integer"}}})"},
      {"numbers with 300 places",
       R"({"minimum":0.)" + std::string(299, '3') + R"(1,"maximum":0.)" + std::string(299, '3') + "2}"},
      {"1,000 multiples of a large prime",
       R"({"type":"integer","multipleOf":7919,"minimum":0,"maximum":7918000})"}};
  for (const char* pattern :
       {"^(a{1,100000}){1,100000}$", "((a{1,100}){1,100}){1,100}", "^(.{0,5000}x){0,5000}$",
        "(a|b)*a(a|b){30}", "^((a?){2000}){2000}$", "^([a-z]{1,9} ?){1,4000}$"})
    all.push_back({std::string("the pattern ") + pattern, R"({"pattern":")" + std::string(pattern) + "\"}"});
  return all;
}

/// The outcome and the milliseconds.
template <typename Make>
std::string outcome(const Make& make) {
  const double begin = thread_ms();
  std::string what;
  try {
    ConstraintState state(Constraint::compile(make(), letter_vocabulary()));
    what = "compiled";
    CHECK((state.may_end() || !state.mask().none()));
  } catch (const ConstraintError& error) {
    what = error.what();
    CHECK(what.size() > 20);
    CHECK((what.back() == '.' || what.ends_with(" of the pattern)")));
    what = "refused: " + what.substr(0, 90);
  }
  char ms[32];
  std::snprintf(ms, sizeof ms, "%7.0f ms  ", thread_ms() - begin);
  return ms + what;
}

}  // namespace

TEST_CASE("hostile schemas: each is compiled, or refused with a sentence") {
  for (const auto& [name, schema] : hostile_schemas()) {
    INFO(name);
    const std::string what = outcome([&schema = schema] { return json_schema_grammar(schema); });
    CHECK_FALSE(what.empty());
    std::cout << what << "  (" << name << ")\n";
  }
}

TEST_CASE("hostile expressions: each is compiled, or refused with a sentence") {
  for (const std::string& pattern :
       {std::string("(a{1,10000}){1,5}"), std::string("((a{1,100}){1,100}){1,100}"),
        std::string("(a|b)*a(a|b){30}"), times(100, "(") + "a" + times(100, ")*"),
        listed(
            "(", 1500, [](int i) { return word(i); }, ")"),
        std::string("(.{0,1000}x){0,40}"), std::string("((a*)*)*b"), std::string("(a?){5000}"),
        "[" + times(9000, "a-z") + "]"}) {
    INFO(pattern.substr(0, 60));
    const std::string what = outcome([&pattern] { return regex_grammar(pattern); });
    CHECK_FALSE(what.empty());
    std::cout << what << "  (" << pattern.substr(0, 40) << ")\n";
  }
}

}  // namespace hearth::test
