#include "profiler/bench/constraint_cases.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/json_schema.h"

namespace hearth {
namespace {

using Kind = ConstraintCase::Kind;

constexpr std::string_view kRecord = R"({"type": "object", "additionalProperties": false,
  "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                 "email": {"type": "string", "format": "email"}, "height": {"type": "number"},
                 "is_student": {"type": "boolean"}, "about": {"type": "string", "maxLength": 200}},
  "required": ["name", "age", "email", "height", "is_student", "about"]})";

constexpr std::string_view kNested = R"({"type": "object", "additionalProperties": false,
  "properties": {"orders": {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": false,
    "properties": {"id": {"type": "integer"}, "customer": {"type": ["string", "null"]},
      "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": false,
        "properties": {"article": {"type": "string"}, "count": {"type": "integer"},
                       "sizes": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}},
        "required": ["article", "count", "sizes"]}}},
    "required": ["id", "lines"]}}},
  "required": ["orders"]})";

constexpr std::string_view kLog =
    R"([0-9]{4}-[0-9]{2}-[0-9]{2} (INFO|WARN|ERROR) \[[a-z]+(\.[a-z]+)*\] .{10,80})";

/// A list of records with three fields, each of which allows only listed words: 500, 40 and 3 words.
std::string many_words() {
  const auto words = [](const std::string& stem, int n) {
    nlohmann::json list = nlohmann::json::array();
    for (int i = 0; i < n; ++i) list.push_back(stem + "_" + std::to_string(i * 7919 % 10007));
    return nlohmann::json{{"enum", std::move(list)}};
  };
  const nlohmann::json item = {{"type", "object"},
                               {"additionalProperties", false},
                               {"properties",
                                {{"article", words("article", 500)},
                                 {"color", words("color", 40)},
                                 {"size", {{"enum", {"small", "medium", "large"}}}}}},
                               {"required", {"article", "color", "size"}}};
  return nlohmann::json{{"type", "array"}, {"items", item}, {"minItems", 3}}.dump();
}

}  // namespace

Grammar ConstraintCase::grammar() const {
  if (kind == Kind::kJsonObject) return json_object_grammar();
  return kind == Kind::kRegex ? regex_grammar(text) : json_schema_grammar(text);
}

std::vector<ConstraintCase> built_in_cases() {
  return {{"free text", Kind::kFree, {}},
          {"any JSON object", Kind::kJsonObject, {}},
          schema_case("flat record", std::string(kRecord)),
          schema_case("nested arrays", std::string(kNested)),
          schema_case("enums of 543 words", many_words()),
          {"regular expression", Kind::kRegex, std::string(kLog)}};
}

ConstraintCase schema_case(std::string name, std::string schema_json) {
  return {std::move(name), Kind::kJsonSchema, std::move(schema_json)};
}

}  // namespace hearth
