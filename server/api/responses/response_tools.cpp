// See the header.
#include "server/api/responses/response_tools.h"

#include <string>

#include "server/json/api_error.h"

namespace hearth {
namespace {

/// Converts a tool from the form of the Responses API, {"type": "function", "name", ...}, to the form of the
/// Chat API: {"type": "function", "function": {"name", ...}}.
Json nested_tool(const Json& tool, const std::string& param) {
  if (!tool.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(tool) + ".");
  const RequestFields fields(tool, param + ".");
  const std::string type = fields.string("type").value_or("");
  if (type != "function") {
    refuse_param(fields.param("type"),
                 "'" + fields.param("type") + "' is " + describe(Json(type)) +
                     ", but this server has no tools of its own; send tools of type 'function', which the "
                     "client runs.");
  }
  if (fields.string("name").value_or("").empty()) {
    refuse_param(fields.param("name"),
                 "'" + fields.param("name") + "' is missing or empty; send the function's name.");
  }
  fields.string("description");  // the type is checked here and in the next two lines
  fields.boolean("strict");
  fields.object("parameters");
  Json function = Json::object();
  for (const char* name : {"name", "description", "parameters", "strict"}) {
    if (const Json* value = fields.find(name)) function[name] = *value;
  }
  return {{"type", "function"}, {"function", std::move(function)}};
}

void check_choice(const RequestFields& fields) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || !choice->is_object()) return;
  const RequestFields inner(*choice, fields.param("tool_choice."));
  const std::string type = inner.string("type").value_or("");
  if (type == "function" || type == "allowed_tools") return;
  refuse_param(
      inner.param("type"),
      "'" + inner.param("type") +
          "' must be function or allowed_tools, because this server has no tools of its own; found " +
          describe(Json(type)) + ".");
}

}  // namespace

void read_response_tools(const RequestFields& fields, ToolChoice& choice, Json& echo) {
  check_choice(fields);
  Json tools = Json::array(), as_chat = Json::object();
  if (const Json* sent = fields.array("tools")) tools = *sent;
  as_chat["tools"] = Json::array();
  for (size_t i = 0; i < tools.size(); ++i)
    as_chat["tools"].push_back(nested_tool(tools[i], "tools[" + std::to_string(i) + "]"));
  for (const char* name : {"tool_choice", "parallel_tool_calls"}) {
    if (const Json* value = fields.find(name)) as_chat[name] = *value;
  }
  choice = read_tool_choice(RequestFields(as_chat));
  echo["parallel_tool_calls"] = choice.parallel;
  const Json* tool_choice = fields.find("tool_choice");
  echo["tool_choice"] = tool_choice != nullptr ? *tool_choice : Json("auto");
  echo["tools"] = std::move(tools);
}

}  // namespace hearth
