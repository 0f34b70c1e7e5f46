// Tests what the grammars of JSON schemas match, keyword by keyword. test_json_schema_oracle.py compares many
// more with another validator.
#include "tests/engine/constraint/schema/schema_checks.h"

using hearth::test::check_schema;

TEST_CASE("json schema: types") {
  check_schema(R"({"type": "null"})", {"null"}, {"nul", "0", ""});
  check_schema(R"({"type": "boolean"})", {"true", "false"}, {"True", "null"});
  check_schema(R"({"type": "integer"})", {"0", "-1", "42", "12345678901234567890"},
               {"01", "-0", "1.0", "+1", "1e3", ""});
  check_schema(R"({"type": "number"})", {"0", "-1.5", "3.25e-7", "1E99"},
               {"01.5", ".5", "1.", "-", "1e100", "NaN"});
  check_schema(R"({"type": "string"})", {R"("")", R"("aé🙂\n\"\\\/")", R"("\u00e9\ud83d\ude42")"},
               {"a", "\"a", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude42")"});
  check_schema(R"({"type": ["integer", "null"]})", {"1", "null"}, {"true", "\"\""});
  check_schema(R"({"type": "array"})", {"[]", "[1, [2], {}]"}, {"[1,]", "[,]", "[ ]"});
  check_schema(R"({"type": "object"})", {"{}", R"({"a": {"b": []}})"}, {"{a: 1}", R"({"a"})", "{ }"});
  check_schema("true", {"1", "[]", "\"x\"", "null", R"({"a": [true]})"}, {"", "x"});
  check_schema("{}", {"1", "{}"}, {"+1"});
}

TEST_CASE("json schema: a schema without types allows the types that its keywords apply to") {
  check_schema(R"({"properties": {"a": true}})", {"{}"}, {"1", "[]"});
  check_schema(R"({"minLength": 2})", {"\"ab\""}, {"\"a\"", "1"});
  check_schema(R"({"minimum": 3})", {"3", "3.5"}, {"2", "\"a\""});
  check_schema(R"({"minItems": 1})", {"[1]"}, {"[]", "{}"});
  check_schema(R"({"allOf": [{"type": ["string", "null"]}, {"minLength": 1}]})", {"null", "\"a\""}, {"\"\""});
}

TEST_CASE("json schema: properties keep the schema's order, and optional ones may be missing") {
  const std::string schema =
      R"({"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "null"}, "c": {"type": "null"}}, "required": ["a"]})";
  check_schema(schema,
               {R"({"a": null})", R"({"b": null, "a": null})", R"({"a": null, "c": null})",
                R"({"b": null, "a": null, "c": null})"},
               {"{}", R"({"a": null, "b": null})", R"({"b": null})", R"({"a": null, "x": null})",
                R"({"a": null, "a": null})"});
  check_schema(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}})",
               {"{}", R"({"a": 1})", R"({"b": 2})", R"({"a": 1, "b": 2})"}, {R"({"b": 2, "a": 1})"});
}

TEST_CASE("json schema: undeclared members") {
  check_schema(R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"type": "boolean"}})",
               {R"({"a": 1, "b": true})", R"({"": false})", "{}"},
               {R"({"b": 1})", R"({"a": true})", R"({"a": 1, "a": true})"});
  check_schema(R"({"additionalProperties": {"type": "null"}})", {"{}", R"({"x": null, "y": null})"},
               {R"({"x": 1})"});
  check_schema(R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"x": 1})"});
  check_schema(R"({"required": ["a"]})", {R"({"a": [1]})"}, {"{}", R"({"a": 1, "b": 2})"});
  check_schema(R"({"patternProperties": {"^n": {"type": "integer"}, "s$": {"maximum": 5}}})",
               {R"({"n": 9})", R"({"ns": 5})", R"({"s": 1.5})"},
               {R"({"ns": 6})", R"({"n": 1.5})", R"({"x": 1})"});
  check_schema(R"({"patternProperties": {"^n": {"type": "integer"}}, "properties": {"n": {"maximum": 3}}})",
               {R"({"n": 3})", R"({"n2": 4})"}, {R"({"n": 4})", R"({"n": 1.5})"});
  check_schema(R"({"propertyNames": {"pattern": "^[a-z]{2}$"}, "additionalProperties": true})",
               {R"({"ab": 1})"}, {R"({"abc": 1})"});
  check_schema(R"({"propertyNames": {"enum": ["p", "q"]}, "additionalProperties": {"type": "null"}})",
               {"{}", R"({"p": null})", R"({"p": null, "q": null})"},
               {R"({"r": null})", R"({"p": null, "p": null})"});
  check_schema(R"({"properties": {"ab": true, "abc": true}, "propertyNames": {"maxLength": 2}})",
               {R"({"ab": 1})"}, {R"({"abc": 1})"});
}

TEST_CASE("json schema: numbers of members") {
  const std::string three = R"("properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}})";
  check_schema("{" + three + R"(, "minProperties": 2})",
               {R"({"a": 1, "c": 1})", R"({"a": 1, "b": 1, "c": 1})"}, {"{}", R"({"b": 1})"});
  check_schema("{" + three + R"(, "maxProperties": 1})", {"{}", R"({"b": 1})"}, {R"({"a": 1, "c": 1})"});
  check_schema("{" + three + R"(, "minProperties": 1, "maxProperties": 2, "required": ["b"]})",
               {R"({"b": 1})", R"({"a": 1, "b": 1})", R"({"b": 1, "c": 1})"},
               {R"({"a": 1})", R"({"a": 1, "b": 1, "c": 1})"});
  check_schema(R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
               {R"({"a": 1})", R"({"a": 1, "b": 1})"}, {"{}", R"({"a": 1, "b": 1, "c": 1})"});
  check_schema(R"({"properties": {"a": true}, "additionalProperties": true, "minProperties": 2})",
               {R"({"a": 1, "b": 2})"}, {R"({"b": 1, "b": 2})", R"({"b": 1})"});
}

TEST_CASE("json schema: arrays") {
  check_schema(R"({"items": {"type": "integer"}, "minItems": 1, "maxItems": 3})", {"[1]", "[1, 2, 3]"},
               {"[]", "[1, 2, 3, 4]", "[null]"});
  check_schema(R"({"maxItems": 0})", {"[]"}, {"[1]"});
  check_schema(R"({"prefixItems": [{"const": "a"}, {"const": 2}]})", {"[]", R"(["a"])", R"(["a", 2])"},
               {"[2]", R"(["a", 2, 3])"});
  check_schema(R"({"prefixItems": [{"const": "a"}], "items": {"const": 0}, "minItems": 2})",
               {R"(["a", 0])", R"(["a", 0, 0])"}, {R"(["a"])", R"([0, 0])"});
  check_schema(R"({"items": [{"const": 1}], "additionalItems": {"const": 2}})", {"[]", "[1]", "[1, 2, 2]"},
               {"[2]", "[1, 1]"});
  check_schema(R"({"prefixItems": [true, false], "minItems": 1})", {"[5]"}, {"[]", "[5, 5]"});
  check_schema(R"({"prefixItems": [{"const": 1}], "minItems": 3, "maxItems": 3})", {R"([1, "x", null])"},
               {"[1]", "[1, 2]"});
  check_schema(R"({"items": {"enum": ["a", "b", "a", 1, 1.0]}, "uniqueItems": true, "minItems": 1})",
               {R"(["a"])", R"(["a", "b", 1])"}, {"[]", R"(["a", "a"])", "[1, 1.0]"});
  check_schema(R"({"items": {"type": "integer"}, "uniqueItems": true, "maxItems": 1})", {"[]", "[7]"},
               {"[7, 7]"});
}

TEST_CASE("json schema: listed values are written unchanged, and other keywords apply to them") {
  check_schema(R"({"enum": ["a\n\"é", 1.50, null, {"k": [1]}]})",
               {R"("a\n\"é")", "1.50", "null", R"({"k": [1]})"}, {"1.5", R"({"k": []})", R"("a")"});
  check_schema(R"({"type": "string", "enum": ["a", 1, "bc", null], "maxLength": 1})", {R"("a")"},
               {"1", R"("bc")", "null"});
  check_schema(R"({"const": {"a": 1, "b": 5}, "properties": {"a": {"type": "integer"}}})",
               {R"({"a": 1, "b": 5})"}, {R"({"a": 1})"});
  check_schema(R"({"enum": [{"a": 1}, {"a": "x"}], "properties": {"a": {"type": "integer"}}})",
               {R"({"a": 1})"}, {R"({"a": "x"})"});
  check_schema(R"({"enum": [[1, 2], [1, 1]], "uniqueItems": true})", {"[1, 2]"}, {"[1, 1]"});
  check_schema(R"({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3.0, 2, 5]}], "minimum": 2.5})", {"3"},
               {"2", "5", "1"});
  check_schema(R"({"enum": ["cat", "dog"], "pattern": "^c"})", {R"("cat")"}, {R"("dog")"});
}

TEST_CASE("json schema: strings") {
  check_schema(R"({"type": "string", "minLength": 2, "maxLength": 3})",
               {R"("ab")", R"("日本🙂")", R"("\n\"")"}, {R"("a")", R"("abcd")", "\"\""});
  check_schema(R"({"pattern": "^a.c$"})", {R"("abc")", R"("a\"c")", R"("a\\c")"},
               {R"("xabc")", R"("a\nc")", R"("ac")"});
  check_schema(R"({"pattern": "b"})", {R"("b")", R"("a\nb")"}, {R"("ac")"});
  check_schema(R"({"pattern": "^\\n\\t\\u0001$"})", {R"("\n\t\u0001")"}, {R"("\u000a\t\u0001")"});
  check_schema(R"({"pattern": "^[a-z]+$", "minLength": 3, "maxLength": 4})", {R"("abc")", R"("abcd")"},
               {R"("ab")", R"("abcde")", R"("ABC")"});
  check_schema(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", {R"("ab")", R"("xbxa")"},
               {R"("a")", R"("b")"});
}

TEST_CASE("json schema: formats of numbers") {
  check_schema(R"({"type": "integer", "format": "uint8"})", {"0", "255"}, {"-1", "256"});
  check_schema(R"({"format": "int64"})", {"-9223372036854775808", "9223372036854775807"},
               {"9223372036854775808"});
  check_schema(R"({"type": "number", "format": "double"})", {"1e9"}, {});
}

TEST_CASE("json schema: formats") {
  const auto check_format = [](const std::string& format, const std::vector<std::string>& members,
                               const std::vector<std::string>& others) {
    const auto quoted = [](std::vector<std::string> texts) {
      for (std::string& text : texts) text = "\"" + text + "\"";
      return texts;
    };
    check_schema(R"({"type": "string", "format": ")" + format + "\"}", quoted(members), quoted(others));
  };
  check_format("date", {"2024-02-29", "2000-02-29", "1999-12-31"},
               {"2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "2024-1-1"});
  check_format("time", {"23:59:59Z", "00:00:00.123+05:30"}, {"24:00:00Z", "23:59:60Z", "12:00:00"});
  check_format("date-time", {"2024-02-29T12:00:00Z"}, {"2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"});
  check_format("duration", {"P1Y", "PT1M", "P1DT2H3M4S", "P3W"}, {"P", "PT", "P1Y2D", "1D"});
  check_format("email", {"a.b+c@example.org"}, {"a@b", "@example.org", "a..b@example.org"});
  check_format("hostname", {"localhost", "a-b.example.org"}, {"-a.org", "a..b", ""});
  check_format("ipv4", {"0.0.0.0", "255.249.199.99"}, {"256.0.0.1", "1.2.3", "01.2.3.4"});
  check_format("ipv6", {"::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::"},
               {"1:2:3", "1::2::3", "1:2:3:4:5:6:7:8:9", "g::", ":::"});
  check_format("uuid", {"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"});
  check_format("uri", {"https://example.org:80/a%20b?c=d#e", "urn:isbn:1", "mailto:a@b.c"},
               {"example.org", "http://", "http://a b"});
  check_format("json-pointer", {"", "/a~1b/0"}, {"a", "/a~2"});
}

TEST_CASE("json schema: references, recursion and definitions") {
  const std::string list = R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
      "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"})";
  check_schema(list, {R"({"v": 1, "next": null})", R"({"v": 1, "next": {"v": 2, "next": null}})"},
               {R"({"v": 1})", R"({"v": 1, "next": {}})"});
  check_schema(R"({"properties": {"child": {"$ref": "#"}}})", {"{}", R"({"child": {"child": {}}})"},
               {R"({"child": 1})"});
  check_schema(R"({"definitions": {"a/b~c %": {"const": 1}}, "$ref": "#/definitions/a~1b~0c%20%25"})", {"1"},
               {"2"});
  check_schema(R"({"$defs": {"x": {"$anchor": "here", "type": "null"}}, "items": {"$ref": "#here"}})",
               {"[null]"}, {"[1]"});
  check_schema(
      R"({"$id": "https://example.org/s", "$defs": {"x": {"const": 3}}, "$ref": "https://example.org/s#/$defs/x"})",
      {"3"}, {"1"});
  check_schema(
      R"({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 5, "description": "beside it"})",
      {"5"}, {"4", "5.5"});
  check_schema(R"({"properties": {"a": {"const": 1}, "b": {"$ref": "#/properties/a"}}})",
               {R"({"a": 1, "b": 1})"}, {R"({"b": 2})"});
}

TEST_CASE("json schema: combinations") {
  check_schema(R"({"anyOf": [{"type": "integer"}, {"const": "x"}]})", {"5", "\"x\""}, {"\"y\"", "null"});
  check_schema(R"({"anyOf": [{"minimum": 5}, {"maximum": -5}], "type": "integer"})", {"5", "-5"}, {"0"});
  check_schema(
      R"({"allOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"type": "integer"}, "b": {"const": 1}}, "required": ["a"]}]})",
      {R"({"a": 1})", R"({"a": 2, "b": 1})"}, {R"({"a": 0})", R"({"a": 1.5})", "{}"});
  check_schema(
      R"({"allOf": [{"properties": {"a": true}, "additionalProperties": false}, {"properties": {"b": true}}]})",
      {"{}", R"({"a": 1})"}, {R"({"b": 1})"});
  check_schema(
      R"({"properties": {"k": {"const": 0}}, "anyOf": [{"properties": {"p": {"const": 1}}, "required": ["p"]},
      {"properties": {"q": {"const": 2}}, "required": ["q"]}]})",
      {R"({"k": 0, "p": 1})", R"({"q": 2})"}, {"{}", R"({"p": 1, "q": 2})"});
  check_schema(R"({"not": {"type": "null"}, "type": ["null", "boolean"]})", {"true"}, {"null"});
}

TEST_CASE("json schema: oneOf of alternatives that exclude each other") {
  check_schema(R"({"oneOf": [{"type": "string"}, {"type": "integer"}]})", {"1", "\"a\""}, {"1.5"});
  check_schema(
      R"({"oneOf": [{"type": "integer", "maximum": 5}, {"type": "integer", "exclusiveMinimum": 5}]})",
      {"5", "6"}, {"5.5"});
  check_schema(
      R"({"oneOf": [{"properties": {"k": {"const": "a"}}, "required": ["k"]}, {"properties": {"k": {"enum": ["b", "c"]}}, "required": ["k"]}],
      "discriminator": {"propertyName": "k"}})",
      {R"({"k": "a"})", R"({"k": "c"})"}, {R"({"k": "d"})"});
  check_schema(R"({"oneOf": [{"required": ["a"], "properties": {"a": true}},
      {"properties": {"b": true}, "additionalProperties": false}]})",
               {R"({"a": 1})", R"({"b": 1})", "{}"}, {R"({"a": 1, "b": 1})"});
  check_schema(R"({"oneOf": [{"maxItems": 1}, {"minItems": 2, "maxItems": 2}]})", {"[]", "[1, 2]"},
               {"[1, 2, 3]"});
}

TEST_CASE("json schema: annotations and comments are ignored") {
  check_schema(
      R"({"title": "t", "description": "d", "default": 1, "examples": [2], "$comment": "c", "deprecated": true, "readOnly": true,
      "$schema": "https://json-schema.org/draft/2020-12/schema", "x-anything": {"if": 1}, "type": "null"})",
      {"null"}, {"1"});
}

TEST_CASE("json schema: the amount of white space is bounded") {
  const std::string schema = R"({"properties": {"a": {"items": {"type": "null"}}, "b": {"type": "null"}}})";
  check_schema(schema,
               {R"({"a":[null,null],"b":null})", R"({ "a": [ null, null ], "b": null })",
                "{\n  \"a\": [\n    null\n  ],\n  \"b\": null\n}"},
               {R"({"a":  []})", R"({"a" : []})", "{\n\n\"a\": []}", R"( {"a": []})", "{\"a\": []}\n",
                "{\t\"a\": []}", "{\n" + std::string(41, ' ') + "\"a\": []}"});
}

TEST_CASE("json schema: one property, as JSON and in parts, with references to the whole schema") {
  enum Part { kValue, kTexts, kOthers };
  const auto check = [](const std::string& property, Part part, const std::vector<std::string>& members,
                        const std::vector<std::string>& others) {
    INFO(property << ", part " << part);
    hearth::JsonProperties properties(R"({"$defs": {"word": {"pattern": "^[a-z\"]+$"}}, "properties": {
        "word": {"type": "string", "$ref": "#/$defs/word", "maxLength": 3}, "list": {"items": {"$ref": "#/$defs/word"}},
        "choice": {"type": "string", "enum": ["a\nb", 1, "c"]}, "any": {"type": "string"},
        "optional": {"anyOf": [{"$ref": "#/$defs/word", "type": "string"}, {"type": "null"}]},
        "mixed": {"enum": ["x", 1, null, ["y"]]}, "either": {"type": ["string", "array"], "items": {"type": "string"}},
        "perhaps": {"type": "string", "maxLength": 2, "nullable": true}, "fixed": {"allOf": [{"const": "z"}]}}})");
    hearth::Grammar grammar;
    const std::optional<hearth::Grammar::Expr> body = part == kValue   ? properties.value(grammar, property)
                                                      : part == kTexts ? properties.texts(grammar, property)
                                                                       : properties.others(grammar, property);
    CHECK(body.has_value() == !members.empty());
    if (!body) return;
    hearth::test::GrammarMatcher matcher(grammar);
    for (const std::string& text : members) CHECK(matcher.matches(text, *body));
    for (const std::string& text : others) CHECK_FALSE(matcher.matches(text, *body));
  };
  check("word", kValue, {R"("a\"b")"}, {"abc", R"("abcd")"});
  check("word", kTexts, {"a\"b", "abc"}, {"\"abc\"", "abcd", ""});
  check("word", kOthers, {}, {});
  check("list", kValue, {R"(["a", "\""])"}, {"[a]"});
  check("list", kTexts, {}, {});
  check("list", kOthers, {R"(["a", "\""])"}, {"[a]"});
  check("choice", kValue, {R"("a\nb")", R"("c")"}, {"1", "c"});
  check("choice", kTexts, {"a\nb", "c"}, {"1", "\"c\""});
  check("any", kTexts, {"", "\"x\n\\"}, {});
  check("optional", kTexts, {"null", "abc"}, {"1", "\"1\""});
  check("optional", kOthers, {"null"}, {"abc", "\"abc\""});
  check("mixed", kTexts, {"x"}, {"1", "null", "y"});
  check("mixed", kOthers, {"1", "null", R"(["y"])"}, {"x", "\"x\""});
  check("either", kTexts, {"[", "x"}, {});
  check("either", kOthers, {R"(["x"])"}, {"[x]", "\"x\""});
  check("perhaps", kTexts, {"ab"}, {"abc"});
  check("perhaps", kOthers, {"null"}, {"\"a\""});
  check("fixed", kTexts, {"z"}, {"\"z\""});
}

TEST_CASE("json schema: any object") {
  const hearth::Grammar grammar = hearth::json_object_grammar();
  hearth::test::GrammarMatcher matcher(grammar);
  for (const char* text : {"{}", R"({"a": [1, {"b": "\u00e9"}], "c": -1.5e3})", "{\n  \"a\": true\n}"})
    CHECK(matcher.matches(text));
  for (const char* text : {"", "[]", "{", R"({"a": 1,})", R"({"a": 1}})", R"({"a": 1} )"})
    CHECK_FALSE(matcher.matches(text));
}
