#include "server/chat/tools/tool_schemas.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/constraint/grammar/character_set.h"
#include "engine/constraint/schema/json_schema.h"
#include "server/chat/tools/schema_types.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

Json schema_of(const Json& tool) {
  const Json& function = tool["function"];
  const auto found = function.find("parameters");
  if (found != function.end() && found->is_object() && !found->empty()) return *found;
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

/// Returns an expression for all values that conform to the schema.
ValueExpr value_expr(const Json& schema, const std::string& string_mark = {}) {
  return [text = json_text(schema), string_mark](Grammar& grammar) {
    return json_schema_expression(grammar, text, string_mark);
  };
}

/// Whether the schema allows all values. The value of such a parameter may be any text.
bool says_nothing(const Json& schema) {
  static const std::set<std::string_view> kNotes{"title", "description", "default", "examples"};
  if (!schema.is_object()) return true;
  for (auto keyword = schema.begin(); keyword != schema.end(); ++keyword)
    if (!kNotes.contains(keyword.key())) return false;
  return true;
}

/// Returns an expression for all values of the schema's type. Used if the schema itself cannot be enforced.
/// Returns null, which matches any text, if the type is string.
ValueExpr loose_value(const Json& schema) {
  static const std::set<std::string_view> kTypes{"null", "boolean", "integer", "number", "array", "object"};
  const Json type = schema.value("type", Json());
  if (type == "string") return {};
  const bool is_known = type.is_string() && kTypes.contains(type.get_ref<const std::string&>());
  return value_expr(is_known ? Json{{"type", type}} : Json(true));
}

Grammar::Expr any_text(Grammar& grammar) { return grammar.any_number(grammar.character(all_characters())); }

/// REQUIRES: the schema can be enforced, or `loose` is true.
std::vector<GrammarParameter> parameters_of(const Json& schema, bool loose) {
  std::vector<GrammarParameter> parameters;
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return parameters;
  const Json listed = schema.value("required", Json::array());
  const std::set<Json> required(listed.begin(), listed.end());
  const auto values = loose ? nullptr : std::make_shared<JsonProperties>(json_text(schema));
  for (const auto& [name, property] : properties->items()) {
    GrammarParameter parameter{.name = name, .required = required.contains(name), .value = {}};
    if (!says_nothing(property) && loose) {
      parameter.value = loose_value(property);
      if (parameter.value && (admitted_types(schema, property) & admitted::kString) != 0)
        parameter.parts = [](Grammar& grammar) {
          return GrammarParameter::Parts{.texts = any_text(grammar)};
        };
    }
    if (!says_nothing(property) && !loose) {
      parameter.value = [values, key = name](Grammar& grammar) { return values->value(grammar, key); };
      parameter.parts = [values, key = name](Grammar& grammar) {
        return GrammarParameter::Parts{.texts = values->texts(grammar, key),
                                       .others = values->others(grammar, key)};
      };
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// Whether the schema can be enforced. Throws RequestError if it cannot be enforced and the tool is strict.
bool is_enforceable(const Json& tool, const Json& schema, size_t index) {
  try {
    Grammar grammar;
    json_schema_expression(grammar, json_text(schema));
    return true;
  } catch (const ConstraintError& error) {
    if (is_strict(tool)) refuse_constraint("tools[" + std::to_string(index) + "].function.parameters", error);
    return false;
  }
}

}  // namespace

bool is_strict(const Json& tool) {
  const auto strict = tool["function"].find("strict");
  return strict != tool["function"].end() && *strict == true;
}

std::vector<GrammarTool> grammar_tools(const Json& tools, bool all_loose, const std::string& string_mark,
                                       const Json& schemas) {
  std::vector<GrammarTool> out;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string name = tools[i]["function"]["name"].get<std::string>();
    const bool replaced = schemas.is_object() && schemas.contains(name);
    const Json schema = replaced ? schemas[name] : schema_of(tools[i]);
    const bool loose = (all_loose && !is_strict(tools[i])) || !is_enforceable(tools[i], schema, i);
    out.push_back({.name = name,
                   .arguments = value_expr(loose ? Json{{"type", "object"}} : schema, string_mark),
                   .parameters = parameters_of(schema, loose)});
  }
  return out;
}

}  // namespace hearth
