// Schemas that cannot be enforced, are malformed or hostile: each is refused with its location and a message.
#include <string>

#include "engine/constraint/automaton/automaton.h"
#include "tests/engine/constraint/schema/schema_checks.h"

using hearth::test::check_refused;

namespace {

std::string repeated(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("refused schemas: text that is not JSON or not a schema") {
  check_refused("", "#", "not valid JSON");
  check_refused("{\"a\": }", "#", "at byte 7");
  check_refused("{} x", "#", "not valid JSON");
  check_refused("\"\xFF\"", "#", "not valid JSON");
  check_refused("5", "#", "must be an object");
  check_refused(R"({"properties": {"a": 1}})", "#/properties/a", "must be an object");
  check_refused(R"({"properties": {"a": {"type": "null", "type": "null"}}})", "#/properties/a",
                "occurs twice");
  check_refused(R"({"minimum": 1e999})", "#", "too large");
}

TEST_CASE("refused schemas: keywords with values of the wrong kind") {
  check_refused(R"({"type": "text"})", "#/type", "is not a type");
  check_refused(R"({"type": ["null", 1]})", "#/type/1", "name of a type");
  check_refused(R"({"properties": {"a/b~": {"minLength": -1}}})", "#/properties/a~1b~0/minLength",
                "of at least 0");
  check_refused(R"({"maxItems": 1.5})", "#/maxItems", "of at least 0");
  check_refused(R"({"exclusiveMinimum": true})", "#/exclusiveMinimum", "must be a number");
  check_refused(R"({"multipleOf": 0})", "#/multipleOf", "above 0");
  check_refused(R"({"required": "a"})", "#/required", "list of names");
  check_refused(R"({"enum": 1})", "#/enum", "list of values");
  check_refused(R"({"anyOf": []})", "#/anyOf", "at least one schema");
  check_refused(R"({"pattern": 1})", "#/pattern", "regular expression");
  check_refused(R"({"items": [1]})", "#/items/0", "must be an object");
}

TEST_CASE("refused schemas: keywords that are unknown or cannot be enforced") {
  check_refused(R"({"properties": {"a": {"minimun": 1}}})", "#/properties/a/minimun", "not a known keyword");
  for (const char* keyword : {"if", "contains", "dependentRequired", "unevaluatedProperties", "$dynamicRef"})
    check_refused("{\"" + std::string(keyword) + "\": {}}", "#/" + std::string(keyword), "not supported");
  check_refused(R"({"not": {"required": ["a"]}})", "#/not", "type alone");
  check_refused(R"({"type": "number", "not": {"type": "integer"}})", "#/not", "other than integers");
  check_refused(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "#/oneOf", "alternatives 0 and 1");
  check_refused(R"({"type": "string", "format": "regex"})", "#/format", "date-time");
  check_refused(R"({"type": "string", "format": "int32"})", "#/format", "not supported for strings");
  check_refused(R"({"const": "x y", "format": "email"})", "#/format", "cannot be determined");
  check_refused(R"({"items": {"pattern": "a(?=b)c"}})", "#/items/pattern", "position 3 of the pattern");
  check_refused(R"({"type": "array", "uniqueItems": true})", "#/uniqueItems", "enum");
  check_refused(R"({"type": "integer", "multipleOf": 7, "minimum": 20})", "#/multipleOf",
                "cannot be enforced");
  check_refused(R"({"patternProperties": {"a": {}, "b": {}, "c": {}, "d": {}}})", "#/patternProperties/d",
                "More than 3");
  check_refused(R"({"$ref": "other.json#/a"})", "#/$ref", "points to nothing");
  check_refused(R"({"$ref": "#/$defs/a"})", "#/$ref", "points to nothing");
  check_refused(R"({"properties": {"a": {"$id": "https://example.org/x"}}})", "#/properties/a/$id",
                "have its own address");
}

TEST_CASE("refused schemas: no value is valid") {
  check_refused("false", "#", "No value is valid");
  check_refused(R"({"required": ["a"], "additionalProperties": false})", "#/required/0", "\"a\" is required");
  check_refused(R"({"type": "integer", "minimum": 5, "maximum": 4})", "#", "within the bounds");
  check_refused(R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "#", "No type is allowed");
  check_refused(R"({"enum": [1, 2], "type": "string"})", "#/enum/0", "listed values");
  check_refused(R"({"minItems": 2, "maxItems": 1})", "#", "No value is valid");
  check_refused(R"({"enum": []})", "#/enum", "at least one value");
  check_refused(R"({"properties": {"a": {"items": {"enum": []}}}})", "#/properties/a/items/enum",
                "at least one value");
}

TEST_CASE("refused schemas: references in circles") {
  check_refused(R"({"$ref": "#"})", "#", "refers to itself");
  check_refused(R"({"allOf": [{"$ref": "#"}]})", "#", "refers to itself");
  check_refused(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "#", "refers to itself");
  check_refused(R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})",
                "#/$defs/a", "refers to itself");
  CHECK_THROWS_WITH(
      hearth::Automaton(
          hearth::json_schema_grammar(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})"), 0),
      ContainsSubstring("can never end"));
}

TEST_CASE("refused schemas: hostile sizes are refused before they cost time or memory") {
  check_refused(std::string(600'000, ' ') + "{}", "#", "more than 524288");
  check_refused(repeated("[", 100'000), "#", "256 deep");
  check_refused(repeated(R"({"items":)", 120) + "{}" + repeated("}", 120), "#" + repeated("/items", 100),
                "nested more than 100");
  check_refused(R"({"minItems": 2000000})", "#/minItems", "1000000");
  check_refused(R"({"minProperties": 20000})", "#/minProperties", "10000");
  check_refused("{\"minimum\": 0." + std::string(100'000, '0') + "1}", "#/minimum", "too many digits");
  std::string choices, chain = R"({"$ref": "#/$defs/a0", "$defs": {"last": {})";
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    choices.append(i == 0 ? "" : ",")
        .append(R"({"anyOf": [{"required": ["a)")
        .append(n)
        .append(R"("]}, {"required": ["b)")
        .append(n)
        .append("\"]}]}");
  }
  CHECK_THROWS_WITH(hearth::json_schema_grammar("{\"allOf\": [" + choices + "]}"),
                    ContainsSubstring("too large"));
  for (int i = 0; i < 200; ++i)
    chain.append(", \"a")
        .append(std::to_string(i))
        .append("\": {\"$ref\": \"#/$defs/a")
        .append(std::to_string(i + 1))
        .append("\"}");
  check_refused(chain + "}}", "#/$defs/a100", "more than 100 deep");
}

TEST_CASE("refused schemas: a large maximum is lowered, which leaves values out and lets none in") {
  const hearth::Grammar grammar =
      hearth::json_schema_grammar(R"({"type": "string", "maxLength": 1000000000})");
  CHECK(hearth::test::GrammarMatcher(grammar).matches("\"abc\""));
}
