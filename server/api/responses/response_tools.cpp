// See the header.
#include "server/api/responses/response_tools.h"

#include <set>
#include <string_view>
#include <utility>

#include "engine/constraint/constraint_error.h"
#include "engine/constraint/grammar/grammar.h"
#include "engine/constraint/schema/json_schema.h"
#include "server/chat/answer_format.h"
#include "server/chat/tools/lark_regex.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

/// The tools in the form of the Chat API, and what becomes of their calls.
class ResponseToolReader {
 public:
  explicit ResponseToolReader(CalledTools& called) : called_(&called) {}

  void read_all(const Json& sent, const std::string& place, const std::string& space = {}) {
    for (size_t i = 0; i < sent.size(); ++i) read(sent[i], place + "[" + std::to_string(i) + "]", space);
  }

  Json tools = Json::array();
  Json schemas = Json(nullptr);  // as ToolChoice::schemas

 private:
  void read(const Json& tool, const std::string& param, const std::string& space) {
    if (!tool.is_object())
      refuse_param(param, "'" + param + "' must be an object, found " + describe(tool) + ".");
    const RequestFields fields(tool, param + ".");
    const std::string type = fields.string("type").value_or("");
    if (type.empty())
      refuse_param(fields.param("type"), "'" + fields.param("type") + "' is missing; send 'function'.");
    if (type == "function") return add(fields, space, function_of(fields));
    if (type == "custom") return add(fields, space, custom_function(fields, space), true);
    if (type != "namespace" || !space.empty()) return;  // not a tool that a client runs by its name
    const Json* inner = fields.array("tools");
    if (inner != nullptr) read_all(*inner, fields.param("tools"), required_name(fields));
  }

  static std::string required_name(const RequestFields& fields) {
    std::string name = fields.string("name").value_or("");
    if (!name.empty()) return name;
    refuse_param(fields.param("name"),
                 "'" + fields.param("name") + "' is missing or empty; send the function's name.");
  }

  /// Adds a tool. A tool that was sent before is replaced, because agents send some of them twice.
  void add(const RequestFields& fields, const std::string& space, Json function, bool is_custom = false) {
    const std::string name = required_name(fields), shown = shown_tool_name(space, name);
    function["name"] = shown;
    if (is_custom || !space.empty()) called_->insert_or_assign(shown, CalledTool{name, space, is_custom});
    Json tool = {{"type", "function"}, {"function", std::move(function)}};
    if (names_.insert(shown).second) {
      tools.push_back(std::move(tool));
      return;
    }
    for (Json& before : tools)
      if (before["function"]["name"] == shown) before = std::move(tool);
  }

  static Json function_of(const RequestFields& fields) {
    fields.string("description");  // the type is checked here and in the next two lines
    fields.boolean("strict");
    fields.object("parameters");
    Json function = {{"name", required_name(fields)}};
    for (const char* name : {"description", "parameters", "strict"}) {
      if (const Json* value = fields.find(name)) function[name] = *value;
    }
    return function;
  }

  /// The grammar of a custom tool is told to the model in the description, and enforced by a schema that the
  /// model does not see: the expression of a grammar is long, and models cannot read it.
  Json custom_function(const RequestFields& fields, const std::string& space) {
    const std::string name = required_name(fields);
    std::string description = fields.string("description").value_or("");
    Json input = {{"type", "string"}};
    Json parameters = {{"type", "object"},
                       {"properties", {{kCustomInput, input}}},
                       {"required", {kCustomInput}},
                       {"additionalProperties", false}};
    Json function = {{"name", name}};
    if (const Json* format = fields.object("format")) {
      const RequestFields inner(*format, fields.param("format."));
      if (inner.required_word("type", {"text", "grammar"}) == "grammar") {
        const std::string syntax = inner.required_word("syntax", {"lark", "regex"});
        const std::string definition = inner.string("definition").value_or("");
        Json schema = parameters;
        schema["properties"][kCustomInput]["pattern"] =
            pattern_of(syntax, definition, inner.param("definition"));
        if (schemas.is_null()) schemas = Json::object();
        schemas[shown_tool_name(space, name)] = std::move(schema);
        description += (description.empty() ? "" : "\n\n") + std::string("The input follows this grammar (") +
                       syntax + "):\n" + definition;
        function["strict"] = true;
      }
    }
    if (!description.empty()) function["description"] = description;
    function["parameters"] = std::move(parameters);
    return function;
  }

  static std::string pattern_of(const std::string& syntax, const std::string& definition,
                                const std::string& param) {
    if (definition.empty())
      refuse_param(param, "'" + param + "' is missing or empty; send the grammar's text.");
    try {
      std::string pattern =
          "^" + (syntax == "regex" ? "(?:" + definition + ")" : lark_to_regex(definition)) + "$";
      Grammar grammar;
      json_schema_expression(grammar, json_text({{"type", "string"}, {"pattern", pattern}}));
      return pattern;
    } catch (const ConstraintError& error) {
      refuse_constraint(param, error);
    }
  }

  CalledTools* called_;
  std::set<std::string> names_;
};

/// Returns the request's tool_choice in the form of the Chat API. Leaves tools out of a list of allowed tools
/// that this server leaves out of the tools.
Json chat_choice(const RequestFields& fields, const Json& choice) {
  if (!choice.is_object()) return choice;
  const RequestFields inner(choice, fields.param("tool_choice."));
  const std::string type = inner.string("type").value_or("");
  const auto is_called = [](const Json& tool) {
    return tool.is_object() &&
           (tool.value("type", Json()) == "function" || tool.value("type", Json()) == "custom");
  };
  const auto named = [](const Json& tool) -> Json {
    if (!tool.contains("namespace") || !tool["namespace"].is_string() || !tool.contains("name") ||
        !tool["name"].is_string()) {
      return {{"type", "function"}, {"name", tool.value("name", Json())}};
    }
    return {{"type", "function"},
            {"name", shown_tool_name(tool["namespace"].get<std::string>(), tool["name"].get<std::string>())}};
  };
  if (is_called(choice)) return named(choice);
  if (type != "allowed_tools") {
    refuse_param(inner.param("type"), "'" + inner.param("type") +
                                          "' must be function, custom or allowed_tools, because this server "
                                          "has no tools of its own; found " +
                                          describe(Json(type)) + ".");
  }
  Json allowed = choice;
  const Json* tools = inner.array("tools");
  if (tools == nullptr) return allowed;
  allowed["tools"] = Json::array();
  for (const Json& tool : *tools) {
    if (is_called(tool)) allowed["tools"].push_back(named(tool));
  }
  return allowed;
}

}  // namespace

std::string shown_tool_name(const std::string& space, const std::string& name) {
  if (space.empty()) return name;
  return space + (space.ends_with("__") ? "" : "__") + name;
}

void read_response_tools(const RequestFields& fields, const Json& additional, ToolChoice& choice,
                         CalledTools& called, Json& echo) {
  ResponseToolReader reader(called);
  Json tools = Json::array(), as_chat = Json::object();
  if (const Json* sent = fields.array("tools")) tools = *sent;
  if (additional.is_array()) reader.read_all(additional, "input.tools");
  reader.read_all(tools, "tools");
  as_chat["tools"] = std::move(reader.tools);
  const Json* tool_choice = fields.find("tool_choice");
  if (tool_choice != nullptr) as_chat["tool_choice"] = chat_choice(fields, *tool_choice);
  if (const Json* parallel = fields.find("parallel_tool_calls")) as_chat["parallel_tool_calls"] = *parallel;
  choice = read_tool_choice(RequestFields(as_chat));
  choice.schemas = std::move(reader.schemas);
  echo["parallel_tool_calls"] = choice.parallel;
  echo["tool_choice"] = tool_choice != nullptr ? *tool_choice : Json("auto");
  echo["tools"] = std::move(tools);
}

}  // namespace hearth
